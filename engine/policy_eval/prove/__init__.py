"""Proof of policies by running what they approve and what they reject on the engine in miniature.

``facts`` (a configuration -> what its engine does), ``lattice`` (all configurations that matter), ``verdicts`` (what
the policies say of each), ``evidence`` (what a run shows, in numbers), ``proof`` (all of it together), ``check`` (one
configuration). Imported only when asked for.
"""
