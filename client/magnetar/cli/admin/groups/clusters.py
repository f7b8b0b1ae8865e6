"""`magnetar admin clusters`."""

from typing import TYPE_CHECKING

from magnetar.cli.admin.declarations import Command, Values, argument, flag, option, whole_body
from magnetar.cli.admin.kinds import NAMES
from magnetar.cli.admin.showing import rows

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient

PATH = "/admin/v2/clusters"
CLUSTER = argument("cluster", "Name of the cluster.")
DOMAIN = option("--domain-name", "Name of the failure domain.", required=True)
BROKERS = option("--broker-list", "Its brokers.", NAMES, member="brokers")
SETTINGS = (
    option("--url", "Address of the HTTP port.", member="serviceUrl"),
    option("--url-secure", "Its address with TLS.", member="serviceUrlTls"),
    option("--broker-url", "Address for clients.", member="brokerServiceUrl"),
    option("--broker-url-secure", "Its address with TLS.", member="brokerServiceUrlTls"),
    option("--proxy-url", "Address of a proxy for clients.", member="proxyServiceUrl"),
    option("--proxy-protocol", "Protocol of the proxy, such as SNI.", member="proxyProtocol"),
    option("--auth-plugin", "How its brokers log in.", member="authenticationPlugin"),
    option("--auth-parameters", "What the plugin needs.", member="authenticationParameters"),
    flag("--tls-enable", "Connect with TLS.", member="brokerClientTlsEnabled"),
    flag("--tls-allow-insecure", "Accept every certificate.", member="tlsAllowInsecureConnection"),
    option(
        "--tls-trust-certs-filepath",
        "Certificates to trust.",
        member="brokerClientTrustCertsFilePath",
    ),
    option("--tls-key-filepath", "Key of the client.", member="brokerClientKeyFilePath"),
    option(
        "--tls-certs-filepath",
        "Certificate of the client.",
        member="brokerClientCertificateFilePath",
    ),
    option("--listener-name", "Listener that clients use.", member="listenerName"),
)
MIGRATION = (
    flag("--migrated", "Send the clients to the new cluster.", query="migrated"),
    option("--service-url", "Its HTTP address.", member="serviceUrl"),
    option("--service-url-secure", "The same with TLS.", member="serviceUrlTls"),
    option("--broker-url", "Its address for clients.", member="brokerServiceUrl"),
    option("--broker-url-secure", "The same with TLS.", member="brokerServiceUrlTls"),
)


def _list(admin: "AdminClient", values: Values) -> list[str]:
    names: list[str] = admin.get(PATH)
    if values["current"]:
        own = admin.get("/admin/v2/brokers/configuration/runtime").get("clusterName")
        names = [f"{name}(*)" if name == own else name for name in names]
    return names


COMMANDS = (
    Command(
        "list",
        "List the clusters.",
        "GET",
        PATH,
        (flag("-c, --current", "Mark the broker's own with (*)."),),
        run=_list,
    ),
    Command("get", "Show the addresses of a cluster.", "GET", f"{PATH}/{{cluster}}", (CLUSTER,)),
    Command("create", "Register a cluster.", "PUT", f"{PATH}/{{cluster}}", (CLUSTER, *SETTINGS)),
    Command("update", "Change a cluster.", "POST", f"{PATH}/{{cluster}}", (CLUSTER, *SETTINGS)),
    Command("delete", "Remove a cluster.", "DELETE", f"{PATH}/{{cluster}}", (CLUSTER,)),
    Command(
        "get-peer-clusters",
        "List the peers of a cluster.",
        "GET",
        f"{PATH}/{{cluster}}/peers",
        (CLUSTER,),
    ),
    Command(
        "update-peer-clusters",
        "Set the peers of a cluster; an empty text removes them.",
        "POST",
        f"{PATH}/{{cluster}}/peers",
        (CLUSTER, option("--peer-clusters", "Names of the peers.", NAMES, required=True)),
        body=whole_body("peer_clusters"),
    ),
    Command(
        "get-cluster-migration",
        "Show where clients of a cluster are sent.",
        "GET",
        f"{PATH}/{{cluster}}/migrate",
        (CLUSTER,),
    ),
    Command(
        "update-cluster-migration",
        "Set where clients of a cluster are sent.",
        "POST",
        f"{PATH}/{{cluster}}/migrate",
        (CLUSTER, *MIGRATION),
    ),
    Command(
        "list-failure-domains",
        "List the failure domains of a cluster.",
        "GET",
        f"{PATH}/{{cluster}}/failureDomains",
        (CLUSTER,),
        show=rows,
    ),
    Command(
        "get-failure-domain",
        "Show the brokers of a failure domain.",
        "GET",
        f"{PATH}/{{cluster}}/failureDomains/{{domain_name}}",
        (CLUSTER, DOMAIN),
    ),
    *(
        Command(
            name,
            text,
            "POST",
            f"{PATH}/{{cluster}}/failureDomains/{{domain_name}}",
            (CLUSTER, DOMAIN, BROKERS),
        )
        for name, text in (
            ("create-failure-domain", "Create a failure domain."),
            ("update-failure-domain", "Change the brokers of a failure domain."),
        )
    ),
    Command(
        "delete-failure-domain",
        "Delete a failure domain.",
        "DELETE",
        f"{PATH}/{{cluster}}/failureDomains/{{domain_name}}",
        (CLUSTER, DOMAIN),
    ),
)
