"""Who gets the next entry: one dispatcher a subscription type, behind one interface."""
