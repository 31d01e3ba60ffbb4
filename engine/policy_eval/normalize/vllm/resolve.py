"""A vLLM launch -> the normalized document: what the engine's configuration would be, without the engine."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from policy_eval.errors import Location, PolicyEvalError, Problem
from policy_eval.model import CONFIG_SCHEMA, Document, Provenance
from policy_eval.normalize.launch import Launch, Word
from policy_eval.normalize.text import UNKNOWN
from policy_eval.normalize.vllm.config_file import config_words
from policy_eval.normalize.vllm.facts import Facts
from policy_eval.normalize.vllm.hf_config import HfConfig, hf_config, model_facts
from policy_eval.normalize.vllm.option_facts import below, check_keys, knowledge, option_fact
from policy_eval.normalize.vllm.parser import Parsed, parse
from policy_eval.normalize.vllm.speculative import speculative_facts
from policy_eval.normalize.vllm.stated import Stated
from policy_eval.normalize.vllm.table import Table, load_table, releases
from policy_eval.normalize.vllm.tokens import MAX_WORDS, Token, from_word, refuse, rewrite
from policy_eval.normalize.vllm.values import Hole
from policy_eval.record import replace

Host = Mapping[str, Any]


def resolve(
    launch: Launch,
    *,
    engine_version: str | None = None,
    hf_configs: Mapping[str, HfConfig] | None = None,
    host: Host | None = None,
) -> Document:
    """The document of one start of vLLM.

    ``engine_version`` wins over what the launch says of the release. ``hf_configs`` maps model names as used on
    the command line to their config.json. ``host`` gives ``platform``, ``has_triton`` and
    ``logits_processor_plugins`` where known. Where the release is not known, every release's option table is
    tried: facts on which they differ are unknown, and what every one refuses is an error.
    """
    version, version_place, warnings = _version(launch, engine_version)
    if version is not None:
        table, remark = _table(version, version_place)
        document = _document(launch, version, version_place, table, hf_configs or {}, host or {})
        added = (*launch.warnings, *warnings, *remark, *document.warnings)
        return replace(document, warnings=added)
    found = [
        _document(launch, None, None, load_table(release), hf_configs or {}, host or {})
        for release in releases()
    ]
    document = _common(found)
    return replace(document, warnings=(*launch.warnings, *warnings, *document.warnings))


def _version(
    launch: Launch, engine_version: str | None
) -> tuple[str | None, Provenance | None, tuple[Problem, ...]]:
    from packaging.version import InvalidVersion, Version

    if engine_version is not None:
        text, place = engine_version, Provenance(how="stated", text=engine_version, why="--engine-version")
        where = None
    elif launch.version is not None and launch.version.text is not None:
        text, where = launch.version.text, launch.version.location
        place = Provenance(how="stated", location=where, text=text)
    else:
        return None, None, ()
    try:
        version = Version(text)
    except InvalidVersion:
        problem = Problem(
            message=f"`{text[:80]}` is not a vLLM release",
            location=where,
            help="write one such as 0.32.0",
        )
        if engine_version is not None:
            raise PolicyEvalError(problem) from None
        return None, None, (problem,)
    # A local part (+cu129) names a build; the rules are the release's.
    return version.public, place, ()


def _table(version: str, place: Provenance | None) -> tuple[Table, tuple[Problem, ...]]:
    """The table of a release: its own, else that of the newest release before it, else the oldest."""
    from packaging.version import Version

    wanted = Version(version)
    known = releases()
    before = [release for release in known if Version(release) <= wanted]
    chosen = before[-1] if before else known[0]
    table = load_table(chosen)
    if not before:
        table = _without_later(table, wanted)
    if Version(chosen).release[:2] == wanted.release[:2]:
        return table, ()
    message = f"vLLM {version} has no option table; that of {chosen} is used"
    return table, (Problem(message=message, location=place.location if place else None),)


def _without_later(table: Table, wanted: Any) -> Table:
    """The table without the options that are known to have come later."""
    from packaging.version import Version

    later = {name for name, since in knowledge()["added"].items() if Version(since) > wanted}
    options = tuple(option for option in table.options if not later & set(option.names))
    names = {name: option for option in options for name in option.names}
    return replace(table, options=options, names=names, ordered=tuple(sorted(names)))


def _document(
    launch: Launch,
    version: str | None,
    version_place: Provenance | None,
    table: Table,
    configs: Mapping[str, HfConfig],
    host: Host,
) -> Document:
    engine = {"name": "vllm"} if version is None else {"name": "vllm", "version": version}
    facts = Facts({"schema": CONFIG_SCHEMA, "engine": engine})
    if version_place is not None:
        facts.provenance["/engine/version"] = version_place
    _host(facts, launch.image, host)
    _env(facts, launch.env)
    try:
        _options(facts, launch, table, configs)
    except PolicyEvalError as error:
        facts.errors.extend(error.problems)
    value = facts.value
    if facts.unknown:
        value["unknown"] = list(facts.unknown)
    return Document(
        name=launch.name,
        value=value,
        provenance=facts.provenance,
        errors=tuple(facts.errors),
        warnings=tuple(facts.warnings),
    )


def _host(facts: Facts, image: Word | None, host: Host) -> None:
    """What the caller states of the host; else the platform that an official image is built for."""
    for key in ("platform", "has_triton", "logits_processor_plugins"):
        if host.get(key) is not None:
            facts.put(f"/host/{key}", host[key], Provenance(how="stated", why="stated by the caller"))
    if image is None or image.text is None or host.get("platform") is not None:
        return
    # registry.example:5000/mirror/vllm/vllm-openai:v0.32.0@sha256:… ends in the image's own name.
    name = image.text.partition("@")[0]
    repository = name[: name.rfind(":")] if name.rfind(":") > name.rfind("/") else name
    platform = knowledge()["image_platforms"].get("/".join(repository.split("/")[-2:]))
    if platform is not None:
        why = f"`{repository[-80:]}` is built for it"
        place = Provenance(how="derived", location=image.location, text=image.text, why=why)
        facts.put("/host/platform", platform, place)


def _env(facts: Facts, env: Mapping[str, Word]) -> None:
    listed = set(knowledge()["environment"])
    for name, word in env.items():
        if name not in listed and not name.startswith("VLLM_"):
            continue
        pointer = "/env/" + name.replace("~", "~0").replace("/", "~1")
        value: Any = (
            word.text if word.text is not None else Hole(word.unknown or f"`{name}` cannot be resolved")
        )
        facts.put(pointer, value, Provenance(how="stated", location=word.location, text=word.text))


def _options(facts: Facts, launch: Launch, table: Table, configs: Mapping[str, HfConfig]) -> None:
    tokens = [from_word(word) for word in launch.argv]
    if len(tokens) > MAX_WORDS:
        raise refuse(f"more than {MAX_WORDS} words on the command line", tokens[MAX_WORDS])
    if tokens and tokens[0].text != "serve":
        tokens = _not_serve(tokens)
    anchor = Token(text="", place=lambda _start, _end: launch.location) if launch.location else None
    _config_remarks(facts, tokens, table)
    words = rewrite(tokens, lambda named: config_words(named, launch.files, launch.base), anchor)
    words = _model_word(words)
    parsed = parse(words, table)
    if parsed.errors:
        facts.errors.extend(problem for error in parsed.errors for problem in error.problems)
        return
    if parsed.open is not None:
        reason = parsed.open.unknown or "a word of the command line is not known"
        facts.warnings.append(
            Problem(
                message=f"{reason}, so every option that it may set is unknown",
                location=parsed.open.location,
                help="supply it, or state the facts that matter with --set",
            )
        )
    _engine_facts(facts, parsed, table, configs)


def _not_serve(tokens: list[Token]) -> list[Token]:
    """What follows the program's name otherwise: its own name, or the options of the API server's module."""
    if tokens[0].text == "vllm":
        return tokens[1:]
    if UNKNOWN in tokens[0].text:
        return tokens
    if tokens[0].text.startswith("-"):
        at = next((i for i, token in enumerate(tokens) if token.text == "serve"), 0)
        if at:
            words = " ".join(token.text for token in tokens[:at])
            raise refuse(f"unrecognized arguments: {words[:2000]}", tokens[0], "options follow `serve MODEL`")
        return tokens
    raise refuse(
        f"`{tokens[0].text[:80]}` does not start an engine",
        tokens[0],
        "only `vllm serve` and the API server's module do",
    )


def _config_remarks(facts: Facts, tokens: list[Token], table: Table) -> None:
    """`--config=FILE` is accepted and ignored, which nobody means."""
    for token in tokens:
        name, equals, value = token.text.partition("=")
        if not name.startswith("--c") or not "--config".startswith(name):
            continue
        abbreviated = name not in table.names and table.starting_with(name) == ["--config"]
        if (name == "--config" and equals) or abbreviated:
            facts.warnings.append(
                Problem(
                    message=f"vLLM ignores `{name}={value[:200]}`" if equals else f"vLLM ignores `{name}`",
                    location=token.location,
                    help="write `--config FILE`, as two words",
                )
            )


_LIST_NAMES = ("arg", "opt", "flag", "extra", "param")


def _model_word(words: list[Token]) -> list[Token]:
    """A variable right after `serve` is the model, unless it is called as lists of options are."""
    if not words or words[0].unknown is None or words[0].open or words[0].text != UNKNOWN:
        return words
    reason = words[0].unknown
    if any(part in reason.lower() for part in _LIST_NAMES):
        return words
    return [replace(words[0], argument=True), *words[1:]]


def _engine_facts(facts: Facts, parsed: Parsed, table: Table, configs: Mapping[str, HfConfig]) -> None:
    stated = Stated(parsed, table)
    tag, option = stated.option("model_tag"), stated.option("model")
    served = option if tag.value is None and not isinstance(tag.value, Hole) else tag
    name = served.value if isinstance(served.value, str) else None
    facts.put("/model_config/model", served.value, served.provenance())
    check_keys(facts, stated, table)
    for row in knowledge()["facts"]:
        if stated.known(row["dest"]):
            option_fact(facts, stated, row)
    _kv_offloading(facts, stated)
    config_name = stated.option("hf_config_path").value
    named = config_name if isinstance(config_name, str) else name
    source = None if named is None else hf_config(named, configs, served=True)
    config = source.value if source is not None else None
    speculative_facts(facts, stated, name, config, configs, knowledge()["speculative"])
    if config is not None and isinstance(config.get("speculators_config"), dict):
        source, config = _verifier(facts, config, configs)
    _model_facts(facts, stated, name, source, config)


def _kv_offloading(facts: Facts, stated: Stated) -> None:
    """KV offloading is done by a connector, whatever connector is configured."""
    size, backend = stated.option("kv_offloading_size"), stated.option("kv_offloading_backend")
    if size.value is None:
        return
    why = Provenance(how="derived", location=size.location(), why="--kv-offloading-size is given")
    connectors = knowledge()["kv_offloading_connectors"]
    connector: Any = connectors.get(backend.value) if isinstance(backend.value, str) else backend.value
    if isinstance(size.value, Hole) or connector is None:
        facts.put("/kv_transfer_config", size.value if connector else Hole("its backend is not known"), why)
        return
    if backend.value == "native" and "/env/VLLM_USE_SIMPLE_KV_OFFLOAD" in facts.provenance:
        connector = Hole("it depends on VLLM_USE_SIMPLE_KV_OFFLOAD")
    if facts.get("/kv_transfer_config") is None:
        facts.put("/kv_transfer_config", {}, why)
    facts.put("/kv_transfer_config/kv_connector", connector, why)
    facts.put("/kv_transfer_config/kv_role", "kv_both", why)


def _verifier(
    facts: Facts, config: Mapping[str, Any], configs: Mapping[str, HfConfig]
) -> tuple[Any, dict[str, Any] | None]:
    """A folder in the speculators format serves the model that it names."""
    verifier = config["speculators_config"].get("verifier")
    name = verifier.get("name_or_path") if isinstance(verifier, dict) else None
    if not isinstance(name, str):
        return None, None
    why = "the speculators_config of its config.json names it"
    facts.put("/model_config/model", name, Provenance(how="derived", why=why))
    source = hf_config(name, configs)
    return source, None if source is None else source.value


def _model_facts(
    facts: Facts, stated: Stated, name: str | None, source: Any, config: dict[str, Any] | None
) -> None:
    """``/model_config/hf_config``: the model's config.json with ``--hf-overrides`` applied."""
    overrides = stated.option("hf_overrides")
    pointer = "/model_config/hf_config"
    changes = overrides.value
    if isinstance(changes, Hole) or (isinstance(changes, dict) and overrides.hole("", None) is not None):
        facts.put(pointer, changes, overrides.provenance())
        return
    if not isinstance(changes, dict):
        facts.refuse(
            "Input should be a valid dictionary", overrides.location(), "give --hf-overrides an object"
        )
        return
    whole = dict(config or {}) | changes
    described = model_facts(whole)
    for key, value in described.items():
        at = f"{pointer}/{key}"
        if key in changes:
            inner = "/" + key
            facts.put(at, overrides.hole(inner, value), overrides.provenance(inner))
        elif config is not None:
            where = source.location(f"/{key}") if key in config else source.location("")
            facts.put(at, value, Provenance(how="stated", location=_file_only(where, key in config)))
        else:
            reason = f"the config.json of `{name or 'the model'}` is not known"
            facts.put(at, Hole(reason), Provenance(how="default"))
    if config is None:
        shown = f"`{name}`" if name else "the model"
        message = f"the config.json of {shown} is not known, so facts about the model are unknown"
        where = stated.option("model_tag").location() or stated.option("model").location()
        facts.warnings.append(
            Problem(message=message, location=where, help="give its folder with --hf-config")
        )


def _file_only(where: Location, exact: bool) -> Location:
    return where if exact else Location(file=where.file)


# --- when the release is not known -------------------------------------------------------------------------------


def _common(documents: list[Document]) -> Document:
    """What the documents of all releases agree on; the newest one gives the rest, as unknown."""
    newest = documents[-1]
    good = [document for document in documents if not document.errors]
    if not good:
        return newest
    newest = good[-1]
    warnings = list(newest.warnings)
    for release, document in zip(releases(), documents, strict=True):
        warnings += [
            replace(problem, message=f"vLLM {release}: {problem.message}") for problem in document.errors
        ]
    differing = [
        pointer
        for pointer in newest.provenance
        if any(pointer in other.provenance and _at(other, pointer) != _at(newest, pointer) for other in good)
    ]
    value = copy.deepcopy(newest.value)
    stated = []
    for pointer in differing:
        if all(other.provenance[pointer].how == "default" for other in good if pointer in other.provenance):
            # Defaults that changed: the document leaves them out, its schema says what is then taken.
            _drop(value, pointer)
        else:
            stated.append(pointer)
    unknown = list(dict.fromkeys([*value.get("unknown", ()), *stated]))
    if unknown:
        value["unknown"] = unknown
    provenance = {
        key: place for key, place in newest.provenance.items() if key not in {*differing} - {*stated}
    }
    return replace(newest, value=value, provenance=provenance, warnings=tuple(warnings))


def _drop(value: dict[str, Any], pointer: str) -> None:
    *parents, last = pointer.split("/")[1:]
    for part in parents:
        value = value.get(part) or {}
    value.pop(last, None)


def _at(document: Document, pointer: str) -> Any:
    return below(document.value, pointer)
