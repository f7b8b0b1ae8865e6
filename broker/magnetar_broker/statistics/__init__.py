"""Statistics of topics as the REST API answers them, with the names of Pulsar's fields."""
