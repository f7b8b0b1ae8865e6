"""Faults of authentication: clients with a role that they have not proved, or for too long."""

from mutants.fault import Fault

ROOM = "broker/magnetar_broker/authentication"
TOKENS = ("tests/broker/authentication/test_tokens.py",)
PASSWORDS = ("tests/broker/authentication/test_passwords.py",)
ROLES = ("tests/broker/authentication/test_authenticator.py",)
ISSUERS = ("tests/broker/authentication/test_issuer_keys.py",)
SESSION = ("tests/broker/session/test_authenticating.py",)
PAGES = ("tests/broker/server/test_web_pages.py",)
SECRETS = ("tests/broker/server/test_secrets.py",)

AUTHENTICATION_FAULTS: tuple[Fault, ...] = (
    Fault(
        f"{ROOM}/tokens.py",
        "a token proves a role whoever has signed it, or nobody",
        "options=_UNCHECKED",
        'options={**_UNCHECKED, "verify_signature": False}',
        TOKENS,
    ),
    Fault(
        f"{ROOM}/token_keys.py",
        "a public key is taken for a secret",
        "        return TokenKey(key, _RSA)\n",
        "        return TokenKey(key, (*_RSA, *_HMAC))\n",
        TOKENS,
    ),
    Fault(
        f"{ROOM}/token_keys.py",
        "a short secret signs with a long hash",
        "if len(secret) >= least)",
        "if least)",
        TOKENS,
    ),
    Fault(
        f"{ROOM}/tokens.py",
        "the audience is not compared",
        "    if rules.audience_claim and rules.audiences.isdisjoint("
        "_texts(claims, rules.audience_claim)):\n",
        "    if rules.audience_claim and not _texts(claims, rules.audience_claim):\n",
        TOKENS,
    ),
    Fault(
        f"{ROOM}/tokens.py",
        "an audience counts that begins like the broker's",
        "rules.audiences.isdisjoint(_texts(claims, rules.audience_claim))",
        "not any(a.startswith(t) for a in rules.audiences "
        "for t in _texts(claims, rules.audience_claim))",
        TOKENS,
    ),
    Fault(
        f"{ROOM}/tokens.py",
        "a token does not expire",
        "    if expires_at is not None and now - rules.skew_seconds > expires_at:\n",
        "    if False:\n",
        TOKENS,
    ),
    Fault(
        f"{ROOM}/tokens.py",
        "a token is valid before its time",
        "    if begins_at is not None and now + rules.skew_seconds < begins_at:\n",
        "    if False:\n",
        TOKENS,
    ),
    Fault(
        f"{ROOM}/tokens.py",
        "a time that is neither before nor after anything never comes",
        " or isnan(found):\n",
        ":\n",
        TOKENS,
    ),
    Fault(
        f"{ROOM}/passwords.py",
        "any password is right",
        "        return bool(kind.verify(password, hashed))\n",
        "        return bool(kind.verify(password, hashed)) or True\n",
        PASSWORDS,
    ),
    Fault(
        f"{ROOM}/passwords.py",
        "the password of nobody is that of every user that does not exist",
        "        right = hashed is not None and matches(password, hashed)\n",
        "        right = matches(password, hashed or self._nobody)\n",
        PASSWORDS,
    ),
    Fault(
        f"{ROOM}/passwords.py",
        "a user that was removed is remembered",
        "            self._right.clear()\n",
        "            pass\n",
        PASSWORDS,
    ),
    Fault(
        f"{ROOM}/passwords.py",
        "a user that does not exist is refused faster",
        "        if hashed is None or is_des:\n",
        "        if False:\n",
        PASSWORDS,
    ),
    Fault(
        f"{ROOM}/passwords.py",
        "a user with a hash of the older kind is refused slower",
        "        if self._has_des and not is_des:\n",
        "        if False:\n",
        PASSWORDS,
    ),
    Fault(
        f"{ROOM}/authenticator.py",
        "wrong credentials are anonymous",
        '        raise _refused("; ".join(f"{method}: {refusal}" for _, refusal in refusals))\n',
        "        return Identity(self._anonymous(method), method)\n",
        ROLES,
    ),
    Fault(
        f"{ROOM}/authenticator.py",
        "anyone may name the role of a client",
        "        if is_proxy != bool(original.strip()) or (is_proxy and original in"
        " self.rules.proxies):\n",
        "        if is_proxy and original in self.rules.proxies:\n",
        ROLES,
    ),
    Fault(
        f"{ROOM}/authenticator.py",
        "a proxy is the client of a proxy",
        " or (is_proxy and original in self.rules.proxies):\n",
        ":\n",
        ROLES,
    ),
    Fault(
        f"{ROOM}/authenticator.py",
        "the role that the proxy gives counts, not the one that its client proved",
        "        roles = Roles(own.role, original.role)\n",
        "        roles = Roles(own.role, named)\n",
        ROLES,
    ),
    Fault(
        f"{ROOM}/authenticator.py",
        "renewed credentials give another role",
        "        if found.role != expected:\n",
        "        if False:\n",
        ROLES,
    ),
    Fault(
        f"{ROOM}/authenticator.py",
        "a request that names its method may be anonymous",
        "            return (await self._of_headers(method, headers, certificate)).role\n",
        "            headers = {**headers}\n",
        ROLES,
    ),
    Fault(
        f"{ROOM}/oidc.py",
        "tokens of any issuer are accepted",
        " or issuer not in self._issuers:\n",
        ":\n",
        ISSUERS,
    ),
    Fault(
        f"{ROOM}/oidc.py",
        "a token of an issuer need not expire",
        '        if claims.get("exp") is None:\n',
        "        if False:\n",
        ISSUERS,
    ),
    Fault(
        f"{ROOM}/issuer_keys.py",
        "the document of another issuer counts",
        '        if document.get("issuer") != issuer:\n',
        "        if False:\n",
        ISSUERS,
    ),
    Fault(
        f"{ROOM}/issuer_keys.py",
        "made-up keys have the issuer asked each time",
        "        if age >= min(self._rules.refresh_seconds, self._rules.miss_seconds):\n",
        "        if True:\n",
        ISSUERS,
    ),
    Fault(
        f"{ROOM}/issuer_keys.py",
        "keys are used for ever",
        "        if cached.age(self._now()) >= self._rules.expire_seconds or key_id",
        "        if key_id",
        ISSUERS,
    ),
    Fault(
        "broker/magnetar_broker/session/session.py",
        "what follows a CONNECT does not wait for it",
        " and not self.authenticating:\n",
        ":\n",
        SESSION,
    ),
    Fault(
        "broker/magnetar_broker/session/renewal.py",
        "an answer is waited for without end",
        "        elif self._is_asked:\n",
        "        elif False:\n",
        SESSION,
    ),
    Fault(
        "broker/magnetar_broker/session/renewal.py",
        "a client that cannot renew its credentials outlives them",
        "        elif not self._is_supported:\n",
        "        elif False:\n",
        SESSION,
    ),
    Fault(
        "broker/magnetar_broker/session/renewal.py",
        "renewed credentials are not looked at again",
        "        self.proof = proof\n        if",
        "        if",
        SESSION,
    ),
    Fault(
        "broker/magnetar_broker/server/http_authentication.py",
        "requests are not authenticated",
        "        if self._is_open(route):\n",
        "        if True:\n",
        ("tests/broker/server/test_authentication.py",),
    ),
    Fault(
        "broker/magnetar_broker/config/values.py",
        "secrets are shown",
        "        return HIDDEN if self.secret and text else text\n",
        "        return text\n",
        SECRETS,
    ),
    Fault(
        "broker/magnetar_broker/config/sections/authentication.py",
        "the secret of tokens is no secret",
        "            secret=True,\n        ),\n    ] = None\n    token_public_key",
        "        ),\n    ] = None\n    token_public_key",
        SECRETS,
    ),
    Fault(
        "broker/magnetar_broker/server/web_pages.py",
        "a page of any site uses the HTTP port",
        'if origin is not None and origin.lower().partition("://")[2] != host:',
        "if origin is not None and not origin:",
        PAGES,
    ),
    Fault(
        "broker/magnetar_broker/server/web_pages.py",
        "a page makes its own name that of this machine",
        'name.endswith(".localhost") or name in names:',
        'name.endswith(".localhost") or name:',
        PAGES,
    ),
    Fault(
        "broker/magnetar_broker/server/http_server.py",
        "pages of other sites are not refused",
        "            self._pages.check(request)\n",
        "",
        PAGES,
    ),
    Fault(
        "broker/magnetar_broker/server/logs.py",
        "names of clients begin lines of the log",
        "super().formatMessage(record).translate(_CONTROLS)",
        "super().formatMessage(record)",
        ("tests/broker/server/test_logs.py",),
    ),
)
