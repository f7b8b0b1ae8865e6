"""What HTTP needs: h11 on one connection, requests, answers, refusals, a table of routes."""
