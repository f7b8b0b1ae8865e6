"""HTTP without the broker: a connection on h11, requests, responses, refusals, a route table."""
