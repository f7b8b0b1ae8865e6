"""Statistics of topics in the form of the REST API, with the names of Pulsar's fields."""
