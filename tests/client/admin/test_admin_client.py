"""The client of the admin API, by itself."""

from collections.abc import Callable

import pytest

from magnetar.admin.client import AdminClient, Refused
from magnetar.admin.settings import AdminSettings
from running_broker import RunningBroker

TENANT = {"adminRoles": [], "allowedClusters": ["standalone"]}


def test_the_methods(broker: RunningBroker) -> None:
    with AdminClient(AdminSettings(f"{broker.http_url}/")) as admin:
        path = "/admin/v2/tenants/of-the-client"
        assert admin.put(path, TENANT) is None
        assert admin.post(path, TENANT | {"adminRoles": ["me"]}) is None
        assert admin.get(path)["adminRoles"] == ["me"]
        assert admin.delete(path, force="false") is None
        with pytest.raises(Refused, match="of-the-client") as refused:
            admin.get(path)
        assert refused.value.status == 404


def test_the_broker_ends_between_two_requests(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker()
    with AdminClient(AdminSettings(broker.http_url)) as admin:
        found = admin.get("/admin/v2/tenants")
        broker.kill()
        broker.start()
        assert admin.get("/admin/v2/tenants") == found
        broker.kill()
        broker.start()
        admin.put("/admin/v2/tenants/shop", TENANT)
        assert "shop" in admin.get("/admin/v2/tenants")
