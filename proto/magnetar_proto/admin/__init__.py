"""The contract of the admin API, as data: both sides and the documentation are made from it."""
