"""Why claims are pending, and what would help.

`nodes` names the first rule that speaks against each device of a node, which costs no search. `pending` finds sets of
reasons that are irreducible, by solving again and again with something relaxed, and fixes that are known to help.
"""

from __future__ import annotations

from claimsmith.allocate.explain.nodes import explain_node, explain_nodes, explain_refusal

__all__ = ["explain_node", "explain_nodes", "explain_refusal"]
