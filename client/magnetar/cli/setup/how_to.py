"""Instructions for connecting to a broker that `magnetar init --secure` has prepared."""

from shlex import quote
from typing import Final

from magnetar.cli.setup.secure_directory import ADMIN, EXAMPLE, SecureDirectory

CLIENTS: Final = {
    "Python, official (pulsar-client)": """\
import pathlib, pulsar
client = pulsar.Client(
    "{url}",
    tls_trust_certs_file_path="{trust}",
    tls_validate_hostname=True,
    authentication=pulsar.AuthenticationToken(pathlib.Path("{token}").read_text),
)""",
    "Python, asyncio (magnetar)": """\
import magnetar
client = magnetar.connect(
    "{url}",
    auth=magnetar.auth.Token("file://{token}"),
    tls=magnetar.Tls("{trust}"),
)""",
    "Java": """\
PulsarClient client = PulsarClient.builder()
    .serviceUrl("{url}")
    .tlsTrustCertsFilePath("{trust}")
    .enableTlsHostnameVerification(true)
    .authentication("org.apache.pulsar.client.impl.auth.AuthenticationToken",
        "{token_uri}")
    .build();""",
    "Go": """\
client, err := pulsar.NewClient(pulsar.ClientOptions{{
    URL:                   "{url}",
    TLSTrustCertsFilePath: "{trust}",
    TLSValidateHostname:   true,
    Authentication:        pulsar.NewAuthenticationTokenFromFile("{token}"),
}})""",
    "C++": """\
pulsar::ClientConfiguration configuration;
configuration.setTlsTrustCertsFilePath("{trust}");
configuration.setValidateHostName(true);
configuration.setAuth(pulsar::AuthToken::createWithToken(token));  // of {token}
pulsar::Client client("{url}", configuration);""",
    "Node.js": """\
const client = new Pulsar.Client({{
  serviceUrl: "{url}",
  tlsTrustCertsFilePath: "{trust}",
  tlsValidateHostname: true,
  authentication: new Pulsar.AuthenticationToken({{
    token: fs.readFileSync("{token}", "utf8"),
  }}),
}});""",
    "Rust": """\
let client = Pulsar::builder("{url}", TokioExecutor)
    .with_certificate_chain_file("{trust}")?
    .with_auth(Authentication {{ name: "token".into(),
        data: std::fs::read("{token}")? }})
    .build().await?;""",
}


def how_to(made: SecureDirectory) -> str:
    """Describe the files, how to start the broker, and how clients connect."""
    parts = {
        "directory": made.directory,
        "conf": quote(str(made.broker_conf)),
        "client_conf": quote(str(made.client_conf(ADMIN))),
        "app_conf": quote(str(made.client_conf(EXAMPLE))),
        "url": made.address.url,
        "trust": made.trust,
        "token": made.token(EXAMPLE),
        "token_uri": made.token(EXAMPLE).as_uri(),
        "app": EXAMPLE,
        "private": quote(str(made.private_key)),
        "certs": quote(str(made.certs.directory)),
    }
    head = """\
Secure broker prepared in {directory}

Start it:
  magnetar standalone --conf {conf}

Administer it (role admin, which may do everything):
  magnetar admin --client-conf {client_conf} tenants list

Let the example role {app} use the namespace public/default, and try it:
  magnetar admin --client-conf {client_conf} namespaces grant-permission public/default \
--role {app} --actions produce,consume
  magnetar produce --client-conf {app_conf} my-topic hello
  magnetar consume --client-conf {app_conf} my-topic -n 1

More roles:
  magnetar tokens create -pk {private} -s ROLE -e 90d
  magnetar certs {certs} --client ROLE

Connect as {app}:"""
    clients = "\n\n".join(
        f"{name}\n" + "\n".join(f"  {line}" for line in text.format(**parts).splitlines())
        for name, text in CLIENTS.items()
    )
    tail = """\
Keep {private} and {certs}/ca.key.pem secret: they make roles.
They are not needed where the broker runs."""
    return "\n\n".join([head.format(**parts), clients, tail.format(**parts)])
