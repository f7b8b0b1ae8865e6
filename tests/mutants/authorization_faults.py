"""Faults of authorization: a check that is missing, or one that changes do not reach."""

from mutants.fault import Fault

RULES = "broker/magnetar_broker/authorization/rules.py"
ACCESS = "broker/magnetar_broker/authorization/access.py"
AUTHORIZER = "broker/magnetar_broker/names/authorizer.py"
COMMANDS = "broker/magnetar_broker/session/authorizing.py"
GUARD = "broker/magnetar_broker/session/guard.py"
REQUESTS = "broker/magnetar_broker/server/admin/authorizing.py"
OF_RULES = ("tests/broker/authorization/test_rules.py",)
OF_COMMANDS = ("tests/broker/session/test_authorizing.py",)
OF_REQUESTS = ("tests/broker/authorization/test_matrix.py",)

AUTHORIZATION_FAULTS: tuple[Fault, ...] = (
    Fault(
        RULES,
        "the topics of the broker are granted like others",
        "            is_of_system(question.subject) and not _finds_coordinators(question)\n",
        "            False\n",
        OF_RULES,
    ),
    Fault(
        RULES,
        "an admin of a tenant passes for a super-user",
        "        if question.need is Need.SUPER_USER or (\n",
        "        if False or (\n",
        OF_RULES,
    ),
    Fault(
        RULES,
        "a role with a grant passes for an admin",
        "        if question.need is Need.TENANT_ADMIN:\n"
        "            return _only_admins(role, question)\n",
        "",
        OF_RULES,
    ),
    Fault(
        RULES,
        "only the first of several roles has to be allowed",
        "            if reason is not None:\n                return reason\n        return None\n",
        "            return reason\n        return None\n",
        OF_RULES,
    ),
    Fault(
        RULES,
        "one super-user among several roles is enough",
        "return all(role in self.super_users",
        "return any(role in self.super_users",
        OF_RULES,
    ),
    Fault(
        RULES,
        "every grant is one of every action",
        "if any(action in wanted for action in _list(roles.get(role, ()))):",
        "if roles.get(role, ()):",
        OF_RULES,
    ),
    Fault(
        RULES,
        "patterns count though they are switched off",
        "return self._wildcards and any(",
        "return any(",
        OF_RULES,
    ),
    Fault(
        RULES,
        "a subscription with roles is for everyone who may consume",
        "if allowed and role not in allowed:",
        "if False:",
        OF_RULES,
    ),
    Fault(
        RULES,
        "the prefix of a subscription is not checked",
        "if grants.prefix_mode and not name.startswith(role):",
        "if False:",
        OF_RULES,
    ),
    Fault(
        ACCESS,
        "what is open stays open after a revocation",
        "                opened.close(why)\n",
        "                pass\n",
        OF_COMMANDS,
    ),
    Fault(
        AUTHORIZER,
        "grants from before a change are kept",
        "            if changes == self._changes:  # else it may be of before a change\n",
        "            if True:\n",
        ("tests/broker/names/test_authorizer.py",),
    ),
    Fault(
        AUTHORIZER,
        "what is known of grants outlives a change",
        "        self._known.clear()\n\n    async def _grants",
        "        pass\n\n    async def _grants",
        OF_COMMANDS,
    ),
    Fault(
        AUTHORIZER,
        "who has no role may do everything",
        "        if not roles:\n"
        '            raise NotAuthorized("no role has been authenticated: send credentials")\n',
        "",
        OF_COMMANDS,
    ),
    Fault(
        AUTHORIZER,
        "who is no super-user any more keeps what is open",
        "            await self._changed(await self._namespaces.names())\n",
        "            pass\n",
        ("tests/broker/names/test_authorizer.py",),
    ),
    Fault(
        "broker/magnetar_broker/names/policy_enforcement.py",
        "the prefix mode does not reach what is open",
        "                if SUBSCRIPTION_AUTH_MODE in values:\n",
        "                if False:\n",
        OF_COMMANDS,
    ),
    Fault(
        "broker/magnetar_broker/names/tenants.py",
        "other admins of a tenant do not reach what is open",
        "        finally:  # also after an error: what was written may have reached the store\n"
        "            await self.changed(name)\n",
        "        finally:\n            pass\n",
        OF_COMMANDS,
    ),
    Fault(
        COMMANDS,
        "a command without a need is served",
        "        if kind in NEEDS\n",
        "        if NEEDS.setdefault(kind, nothing)\n",
        OF_COMMANDS,
    ),
    Fault(
        COMMANDS,
        "an initial subscription needs no permission",
        "return [Question(Need.PRODUCE, topic), *of_subscription]",
        "return [Question(Need.PRODUCE, topic)]",
        OF_COMMANDS,
    ),
    Fault(
        COMMANDS,
        "schemas are open to every role",
        "    Command.GET_SCHEMA: use_of_topic,\n",
        "    Command.GET_SCHEMA: nothing,\n",
        OF_COMMANDS,
    ),
    Fault(
        GUARD,
        "what is being opened outlives a revocation",
        "        for opening in self._opening:\n            for question in opening.questions:\n",
        "        for opening in self._opening:\n            for question in ():\n",
        OF_COMMANDS,
    ),
    Fault(
        GUARD,
        "watched lists of topics outlive a revocation",
        "        for number, watcher in session.watchers.items():\n",
        "        for number, watcher in dict(()).items():\n",
        OF_COMMANDS,
    ),
    Fault(
        REQUESTS,
        "requests are not authorized",
        "        await _authorize(site, request, list(_questions(route, request)), "
        "route.refused_with)\n",
        "        pass\n",
        OF_REQUESTS,
    ),
    Fault(
        REQUESTS,
        "the topics in a body are not looked at",
        "        for name in route.names(request):\n",
        "        for name in ():\n",
        OF_REQUESTS,
    ),
    Fault(
        REQUESTS,
        "the subscription in a path is not looked at",
        '    if need is Need.CONSUME and "subscription" in parameters:\n',
        "    if False:\n",
        OF_REQUESTS,
    ),
    Fault(
        REQUESTS,
        "requests for all subscriptions do not look at their roles",
        "        await _authorize(site, request, questions, refused)\n",
        "        pass\n",
        OF_REQUESTS,
    ),
    Fault(
        RULES,
        "a text in place of the roles of a subscription has parts of it as roles",
        "    if not isinstance(value, list | tuple):\n",
        "    if False:\n",
        ("tests/broker/names/test_authorizer.py",),
    ),
    Fault(
        "broker/magnetar_broker/session/topic_lists.py",
        "a list of topics is sent though it was revoked while it was fetched",
        "        session.guard.check(command)\n",
        "        pass\n",
        OF_COMMANDS,
    ),
    Fault(
        "broker/magnetar_broker/names/deletion.py",
        "a defect in one deletion stops the start",
        "            except Exception:  # a defect with one name must not keep the others, or the "
        "start\n",
        "            except BrokerError:\n",
        ("tests/broker/names/test_deletion.py",),
    ),
)
