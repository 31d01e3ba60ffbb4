"""The speculative configuration: what the command line, the model's config.json and the method imply together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from policy_eval.errors import Location, Problem
from policy_eval.model import Provenance
from policy_eval.normalize.vllm.facts import Facts
from policy_eval.normalize.vllm.hf_config import HfConfig, hf_config, model_facts
from policy_eval.normalize.vllm.stated import Stated, Statement
from policy_eval.normalize.vllm.values import BadValue, Hole, as_bool, as_int, as_text, has_hole, one_of

_POINTER = "/speculative_config"


class Speculation:
    """Keys and values in the making, and where each was stated."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.places: dict[str, Provenance] = {}
        self.keys: dict[str, Location | None] = {}

    def set(self, key: str, value: Any, place: Provenance, key_place: Location | None = None) -> None:
        """State one key; ``key_place`` is where the key itself stands."""
        self.values[key] = value
        self.places[key] = place
        self.keys[key] = key_place or place.location


def speculative_facts(
    facts: Facts,
    stated: Stated,
    model: str | None,
    model_config: Mapping[str, Any] | None,
    configs: Mapping[str, HfConfig],
    knowledge: Mapping[str, Any],
) -> None:
    """Write ``/speculative_config``: null, a mapping with every default resolved, or unknown.

    ``model`` is the name given on the command line and ``model_config`` its config.json (None: not known).
    """
    whole = stated.option("speculative_config")
    if isinstance(whole.value, Hole):
        facts.put(_POINTER, whole.value, whole.provenance())
        return
    if whole.value is not None and not isinstance(whole.value, dict):
        kind = type(whole.value).__name__
        message = f"{kind!r} object has no attribute 'items'"
        facts.refuse(message, whole.location(), "give --speculative-config a JSON object")
        return
    if any(has_hole(key) for key in whole.value or {}):
        facts.put(_POINTER, whole.hole("", whole.value), whole.provenance())
        return
    spec = Speculation()
    implied = model_config is not None and isinstance(model_config.get("speculators_config"), dict)
    if implied and model is not None and model_config is not None:
        _from_speculators(spec, model, model_config)
    replaced = implied and _replaced(facts, stated, whole, knowledge)
    for key, value in () if replaced else (whole.value or {}).items():
        pointer = "/" + key.replace("~", "~0").replace("/", "~1")
        place = whole.provenance(pointer)
        spec.set(key, whole.hole(pointer, value), place, whole.location(pointer, key=True))
    if not _merge_flags(facts, spec, stated):
        return
    spec = _underscored(spec)
    if whole.value is None and not spec.values:
        if model_config is None:
            reason = f"the config.json of `{model}` is not known; it may bring a speculator of its own"
            facts.put(_POINTER, Hole(reason), Provenance(how="default"))
        else:
            facts.put(_POINTER, None, whole.provenance())
        return
    facts.put(_POINTER, {}, whole.provenance())
    if _check(facts, spec, knowledge, stated.choices("spec_method")):
        _resolve(facts, spec, model, configs, knowledge)


def _replaced(facts: Facts, stated: Stated, whole: Statement, knowledge: Mapping[str, Any]) -> bool:
    """Whether the release drops what is stated in favour of what the model folder implies; it is remarked."""
    from packaging.specifiers import SpecifierSet

    if not SpecifierSet(knowledge["speculators_replace_stated"]).contains(stated.release):
        return False
    if whole.value:
        message = f"vLLM {stated.release} ignores --speculative-config: the model brings its own speculator"
        facts.warnings.append(Problem(message=message, location=whole.location()))
    return True


def _from_speculators(spec: Speculation, model: str, config: Mapping[str, Any]) -> None:
    """A model folder in the speculators format names its method, its tokens, and itself as the draft."""
    where = Provenance(how="derived", why=f"the config.json of `{model}` has `speculators_config`")
    spec.set("model", model, where)
    method = config.get("speculators_model_type")
    spec.set("method", method if isinstance(method, str) else Hole("its config.json names no method"), where)
    proposals = config["speculators_config"].get("proposal_methods")
    first = proposals[0] if isinstance(proposals, list) and proposals else None
    tokens = first.get("speculative_tokens") if isinstance(first, dict) else None
    if isinstance(tokens, int) and not isinstance(tokens, bool):
        spec.set("num_speculative_tokens", tokens, where)


def _merge_flags(facts: Facts, spec: Speculation, stated: Stated) -> bool:
    for dest, key in (
        ("spec_method", "method"),
        ("spec_model", "model"),
        ("spec_tokens", "num_speculative_tokens"),
    ):
        given = stated.option(dest)
        if given.value is None:
            continue
        if spec.values.get(key) is not None:
            flag = "--" + dest.replace("_", "-")
            message = f"{flag} and --speculative-config['{key}'] are mutually exclusive"
            facts.refuse(message, given.location(), "state it once")
            return False
        spec.set(key, given.value, given.provenance())
    return True


def _underscored(spec: Speculation) -> Speculation:
    """``-`` in keys becomes ``_``, after the flags were merged: of two spellings the later one wins."""
    found = Speculation()
    for key, value in spec.values.items():
        found.set(key.replace("-", "_"), value, spec.places[key], spec.keys[key])
    return found


def _check(facts: Facts, spec: Speculation, knowledge: Mapping[str, Any], methods: tuple[str, ...]) -> bool:
    """Unknown keys and values of the wrong kind, in pydantic's words; converts the values in place."""
    readers: dict[str, Callable[[Any], Any]] = {
        "method": one_of(methods),
        "model": as_text,
        "num_speculative_tokens": as_int,
        "enable_adaptive_verification": as_bool,
        "parallel_drafting": as_bool,
        "use_heterogeneous_vocab": as_bool,
        "use_local_argmax_reduction": as_bool,
        "draft_sample_method": one_of(tuple(knowledge["draft_sample_methods"])),
        "rejection_sample_method": one_of(tuple(knowledge["rejection_sample_methods"])),
    }
    good = True
    for key, value in spec.values.items():
        where = spec.places[key].location
        if key not in knowledge["fields"]:
            good = False
            facts.refuse("Unexpected keyword argument", spec.keys[key], _closest(key, knowledge["fields"]))
            continue
        nullable = key in ("method", "model") and value is None
        if isinstance(value, Hole) or nullable or key not in readers:
            continue
        try:
            spec.values[key] = readers[key](value)
            if key == "num_speculative_tokens" and spec.values[key] <= 0:
                raise BadValue("Input should be greater than 0")
        except BadValue as error:
            good = False
            facts.refuse(str(error), where, f"`{key}` of --speculative-config")
    return good


def _closest(key: str, fields: list[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(key, fields, n=1)
    return f"did you mean `{close[0]}`?" if close else f"--speculative-config has no key `{key[:80]}`"


def _resolve(
    facts: Facts,
    spec: Speculation,
    target: str | None,
    configs: Mapping[str, HfConfig],
    knowledge: Mapping[str, Any],
) -> None:
    values = spec.values
    method, model, tokens = values.get("method"), values.get("model"), values.get("num_speculative_tokens")
    method_place = spec.places.get("method")
    if method is None:
        method, method_place = _implied_method(model, spec, knowledge)
    mtp = isinstance(method, str) and (method == "mtp" or method.endswith("_mtp"))
    if mtp:
        method = "mtp"
    if method == "[ngram]":
        method = "ngram"
    if model is None and isinstance(method, str):
        model = _implied_model(facts, method, target, tokens, spec, knowledge)
        if model is None:
            return
    draft = hf_config(model, configs) if isinstance(model, str) else None
    if isinstance(method, str) and method not in knowledge["fixed_methods"] and not mtp:
        method, method_place = _detected(
            method, model, None if draft is None else draft.value, method_place, knowledge
        )
    default = Provenance(how="default", why="vLLM SpeculativeConfig")
    facts.put(f"{_POINTER}/method", method, method_place or default)
    facts.put(f"{_POINTER}/model", model, spec.places.get("model") or default)
    if tokens is None:
        reason = f"num_speculative_tokens follows from the config.json of `{model}`"
        facts.put(f"{_POINTER}/num_speculative_tokens", Hole(reason), default)
    else:
        facts.put(f"{_POINTER}/num_speculative_tokens", tokens, spec.places["num_speculative_tokens"])
    if isinstance(method, str) and method in knowledge["parallel_drafting"]:
        implied = Provenance(how="derived", why=f"method `{method}` drafts in parallel")
        facts.put(f"{_POINTER}/parallel_drafting", True, implied)
    elif isinstance(method, Hole) and not values.get("parallel_drafting"):
        facts.put(f"{_POINTER}/parallel_drafting", method, default)
    else:
        _plain(facts, spec, "parallel_drafting", False, default)
    _plain(facts, spec, "enable_adaptive_verification", False, default)
    _plain(facts, spec, "use_heterogeneous_vocab", False, default)
    _plain(facts, spec, "use_local_argmax_reduction", False, default)
    _plain(facts, spec, "draft_sample_method", "greedy", default)
    _plain(facts, spec, "rejection_sample_method", "standard", default)
    if draft is not None:
        described = model_facts(draft.value)
        for key in ("architectures", "layer_types"):
            if key in described:
                read = Provenance(
                    how="stated", location=_place(draft, f"/{key}"), why="the draft's config.json"
                )
                facts.put(f"{_POINTER}/draft_hf_config/{key}", described[key], read)


def _place(source: Any, pointer: str) -> Location | None:
    found: Location = source.location(pointer)
    return found


def _plain(facts: Facts, spec: Speculation, key: str, default: Any, place: Provenance) -> None:
    if key in spec.values:
        facts.put(f"{_POINTER}/{key}", spec.values[key], spec.places[key])
    else:
        facts.put(f"{_POINTER}/{key}", default, place)


def _implied_method(
    model: Any, spec: Speculation, knowledge: Mapping[str, Any]
) -> tuple[Any, Provenance | None]:
    """The method where none is named: a dotted import path is a custom class, else a draft model."""
    if isinstance(model, Hole):
        return Hole(f"the method follows from the draft model, and {model.reason}"), spec.places["model"]
    if model is None:
        return "draft_model", None
    place = Provenance(how="derived", location=spec.places["model"].location, why="it follows from `model`")
    if model in ("ngram", "[ngram]"):
        return "ngram", place
    parts = model.split(".")
    path = "/" not in model and len(parts) >= 2 and all(part.isidentifier() for part in parts)
    return ("custom_class" if path else "draft_model"), place


def _implied_model(
    facts: Facts,
    method: str,
    target: str | None,
    tokens: Any,
    spec: Speculation,
    knowledge: Mapping[str, Any],
) -> Any:
    """The draft model where none is named; None (and an error) where the engine refuses."""
    where = next(iter(spec.places.values())).location if spec.places else facts.provenance[_POINTER].location
    if method in knowledge["own_model"]:
        return method
    if method in knowledge["target_model"]:
        return target if target is not None else Hole("the served model is not known")
    if method == "custom_class":
        message = "method='custom_class' requires 'model' to contain the custom proposer module path (e.g., "
        facts.refuse(message + "'my_module.MyProposer').", where)
    elif tokens is not None:
        message = "num_speculative_tokens was provided but without speculative model."
        facts.refuse(message, where, "name the draft `model`, or a `method` that needs none")
    else:
        message = (
            "num_speculative_tokens must be provided with speculative model unless the draft model config "
        )
        facts.refuse(message + "contains an n_predict parameter.", where)
    return None


def _detected(
    method: str,
    model: Any,
    draft: Mapping[str, Any] | None,
    place: Provenance | None,
    knowledge: Mapping[str, Any],
) -> tuple[Any, Provenance | None]:
    """The method the engine detects from the draft model's name and config.json."""
    if not isinstance(model, str) or has_hole(model):
        reason = model.reason if isinstance(model, Hole) else "its name is not known"
        return Hole(f"the method follows from the draft model, and {reason}"), place
    where = place.location if place else None

    def because(why: str) -> Provenance:
        return Provenance(how="derived", location=where, why=why)

    for part, found in knowledge["draft_names"]:
        if part in model.lower():
            return found, because(f"the draft model's name contains `{part}`")
    if draft is not None:
        for name in draft.get("architectures") or ():
            if name in knowledge["draft_architectures"]:
                return knowledge["draft_architectures"][name], because(f"the draft is a `{name}`")
        model_type = draft.get("model_type")
        if isinstance(model_type, str):
            if model_type in knowledge["draft_model_types"]:
                return knowledge["draft_model_types"][model_type], because(f"the draft is a `{model_type}`")
            if model_type.endswith("_mtp"):
                return "mtp", because(f"the draft is a `{model_type}`")
    elif method == "draft_model":
        return Hole(f"the method follows from the config.json of `{model}`, which is not known"), place
    return method, place
