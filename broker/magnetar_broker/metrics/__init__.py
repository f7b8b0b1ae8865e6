"""Figures: counted on the way, gathered on request, shown to Prometheus."""
