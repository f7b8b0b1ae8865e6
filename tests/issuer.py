"""A small issuer of OpenID Connect: discovery, keys that rotate, and tokens for clients."""

import json
import math
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from fakes.http_servers import serve

SECRET_OF_CLIENT = "secret-of-the-client"


class Issuer:
    """Serves on loopback until it is closed."""

    def __init__(self, role: str = "service", seconds: float = 3600) -> None:
        self.role = role
        self.seconds = seconds
        self.keys: dict[str, rsa.RSAPrivateKey] = {}
        self.requests: list[str] = []
        self.rotate("first")
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.requests.append(self.path)
                self._answer(issuer.document(self.path))

            def do_POST(self) -> None:
                issuer.requests.append(self.path)
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                asked: dict[str, Any] = {name: v[0] for name, v in parse_qs(body).items()}
                if body.startswith("{"):
                    asked = json.loads(body)
                right = asked.get("client_secret") == SECRET_OF_CLIENT
                self._answer(issuer.grant() if right else None)

            def _answer(self, found: object) -> None:
                body = json.dumps(found).encode()
                self.send_response(401 if found is None else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}"
        self.close = serve(server)

    def rotate(self, name: str) -> None:
        """Sign with a new key from now on; only that one is published."""
        self.keys = {name: rsa.generate_private_key(65537, 2048)}

    def document(self, path: str) -> object:
        """What a GET of a path answers; None is an error."""
        if path == "/.well-known/openid-configuration":
            return {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "token_endpoint": f"{self.url}/token",
            }
        if path != "/keys":
            return None
        to_jwk = jwt.algorithms.RSAAlgorithm.to_jwk
        return {
            "keys": [
                {**to_jwk(key.public_key(), as_dict=True), "kid": name, "use": "sig"}
                for name, key in self.keys.items()
            ]
        }

    def token(self, **others: Any) -> str:
        """A token for the role."""
        ((name, key),) = self.keys.items()
        claims = {
            "iss": self.url,
            "sub": self.role,
            "aud": "broker",
            "iat": int(time.time()),
            "exp": math.ceil(time.time() + self.seconds),
            **others,
        }
        return jwt.encode(claims, key, "RS256", {"kid": name})

    def grant(self) -> object:
        """The answer to a client that asks for a token."""
        return {
            "access_token": self.token(),
            "token_type": "Bearer",
            # Clients that keep a token for so long ask for the next one before it has expired.
            "expires_in": max(1, int(self.seconds) - 1),
        }
