"""The subcommands of ``policy-eval``, one file each, imported when they are run."""
