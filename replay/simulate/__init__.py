"""What another policy would have done on recorded trees: counterfactual, from logs alone.

``record`` reads what the agents made of each node, ``search`` runs the core on that with
another configuration, ``estimate`` sums up over seeds and says how far to trust it.
"""
