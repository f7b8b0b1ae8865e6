"""Loading settings from files, environment and command line: settings, warnings, helpful errors."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pulsar_conf
from magnetar_broker.config.domains import Durability, SubscriptionType, TopicType
from magnetar_broker.config.keys import COMPATIBLE, NOT_BUILT, UNSAFE
from magnetar_broker.config.listeners import AdvertisedListener
from magnetar_broker.config.load import ConfigError, Loaded, interpret, load
from magnetar_broker.config.settings import KEYS, Settings

ROOT = Path(__file__).parents[3]


def read(text: str) -> Loaded:
    return interpret("test.conf", text, {}, {})


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as refusal:
        read(text)
    return str(refusal.value)


def test_nothing_given_is_the_defaults() -> None:
    assert load(None, {}, {}) == (Settings(), [])


@pytest.mark.parametrize("name", ["broker.conf", "standalone.conf"])
def test_our_files_set_every_setting_to_its_default(name: str) -> None:
    path = ROOT / "conf" / name
    assert load(str(path), {}, {}) == (Settings(), [])
    keys = re.findall(r"^(\w+)=", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(keys) == sorted(key.name for key in KEYS.values())


def test_an_unmodified_pulsar_broker_file_starts_with_the_one_warning_it_deserves() -> None:
    settings, warnings = read(pulsar_conf.BROKER)
    assert settings == Settings(
        bind_address="0.0.0.0",
        authenticate_metrics_endpoint=False,
        broker_max_connections=0,
        max_producers_per_topic=0,
        max_consumers_per_topic=0,
        max_consumers_per_subscription=0,
        max_subscriptions_per_topic=0,
        is_delayed_delivery_deliver_at_time_strict=False,
        default_number_of_namespace_bundles=4,
        transaction_coordinator_enabled=False,
        max_active_transactions_per_coordinator=0,
    )
    assert [warning.partition(":")[0] for warning in warnings] == ["bindAddress=0.0.0.0"]


def test_an_unmodified_pulsar_standalone_file_starts_and_names_what_will_not_happen() -> None:
    settings, warnings = read(pulsar_conf.standalone())
    assert settings.cluster_name == "standalone"
    assert settings.backlog_quota_default_limit_gb == 10
    assert len(warnings) == 2
    assert "webSocketServiceEnabled is not built yet" in warnings[0]
    assert warnings[1].startswith("bindAddress=0.0.0.0")


def test_every_value_that_pulsar_ships_is_quiet() -> None:
    for table in (UNSAFE, NOT_BUILT, COMPATIBLE):
        for known in table.values():
            for value in known.quiet:
                assert read(f"{known.name}={value}") == (Settings(), [])


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("maxMessageSize = 1024 ", "max_message_size", 1024),
        ("allowAutoTopicCreation=FALSE", "allow_auto_topic_creation", False),
        (
            "allowAutoTopicCreationType=partitioned",
            "allow_auto_topic_creation_type",
            TopicType.PARTITIONED,
        ),
        ("magnetarDurability=relaxed", "durability", Durability.RELAXED),
        ("magnetarDataDirectory=/var/lib/a b", "data_dir", "/var/lib/a b"),
        ("bootstrapNamespaces=a/b, c/d", "bootstrap_namespaces", ("a/b", "c/d")),
        (
            "subscriptionTypesEnabled=Shared",
            "subscription_types_enabled",
            frozenset({SubscriptionType.SHARED}),
        ),
        ("webServicePort=", "web_service_port", None),
        ("brokerServicePort=0", "broker_service_port", 0),
        ("advertisedAddress=broker.example.com", "advertised_address", "broker.example.com"),
        ("maxMessagePublishBufferSizeInMB=", "max_message_publish_buffer_size_in_mb", 128),
        ("bindAddress=", "bind_address", "127.0.0.1"),
        (
            "advertisedListeners=in:pulsar://b1:6650, out:pulsar+ssl://[::1]:6651",
            "advertised_listeners",
            (
                AdvertisedListener("in", "pulsar", "pulsar://b1:6650"),
                AdvertisedListener("out", "pulsar+ssl", "pulsar+ssl://[::1]:6651"),
            ),
        ),
    ],
)
def test_a_key_is_honoured(line: str, field: str, value: object) -> None:
    settings, warnings = read(line)
    assert getattr(settings, field) == value
    assert warnings == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "\nmaxMessageSize=5MB",
            "test.conf:2: maxMessageSize=5MB: expected a whole number from 1 to 1073741824 (bytes)",
        ),
        (
            "allowAutoTopicCreation=yes",
            "test.conf:1: allowAutoTopicCreation=yes: expected true or false",
        ),
        (
            "magnetarDurability=none",
            "test.conf:1: magnetarDurability=none: expected fsync or relaxed",
        ),
        (
            "brokerServicePort=",
            "test.conf:1: brokerServicePort=: no port is left for clients: "
            "set brokerServicePort or brokerServicePortTls",
        ),
        ("bindAddress=pulsar://host", "test.conf:1: bindAddress=pulsar://host: expected a host"),
        ("bootstrapNamespaces=public", "expected tenant/namespace"),
        ("=5", "test.conf:1: =5: a key is missing"),
        ("webServicePort=6650", "test.conf:1: webServicePort=6650: brokerServicePort is the same"),
        (
            "brokerServicePort=8080",
            "default: webServicePort=8080: brokerServicePort is the same",
        ),
        (
            "managedLedgerMaxLedgerRolloverTimeMinutes=5",
            "expected at least managedLedgerMinLedgerRolloverTimeMinutes, 10",
        ),
        (
            "maxNumPartitionsPerPartitionedTopic=3\ndefaultNumPartitions=4",
            "test.conf:2: defaultNumPartitions=4: "
            "expected at most maxNumPartitionsPerPartitionedTopic, 3",
        ),
        (
            "advertisedListeners=pulsar://host:6650",
            "test.conf:1: advertisedListeners=pulsar://host:6650: expected name:scheme://host:port",
        ),
        ("advertisedListeners=a:pulsar://host", "expected name:scheme://host:port"),
        ("advertisedListeners=a:pulsar://host:0", "expected name:scheme://host:port"),
        ("advertisedListeners=a:pulsar://host:65536", "expected name:scheme://host:port"),
        ("advertisedListeners=a:ws://host:1", "pulsar, pulsar+ssl, http or https"),
        (
            "advertisedListeners=a:pulsar://host:1,a:pulsar://host:2",
            "test.conf:1: advertisedListeners=a:pulsar://host:1,a:pulsar://host:2: "
            "listener a has more than one pulsar address; keep one",
        ),
        (
            "advertisedListeners=a:pulsar://host:1,b:pulsar://host:2\ninternalListenerName=c",
            "test.conf:2: internalListenerName=c: expected a listener of advertisedListeners: a, b",
        ),
        (
            "advertisedListeners=a:http://host:1,b:pulsar://host:2",
            "default: internalListenerName=: listener a has no pulsar:// and no pulsar+ssl:// "
            "address",
        ),
        (
            "internalListenerName=a",
            "test.conf:1: internalListenerName=a: advertisedListeners is not set",
        ),
    ],
)
def test_a_bad_value_is_an_error_with_its_place_and_what_is_allowed(
    text: str, message: str
) -> None:
    assert message in refused(text)


def test_any_free_port_twice_is_no_contradiction() -> None:
    settings, _ = read("brokerServicePort=0\nwebServicePort=0")
    assert (settings.broker_service_port, settings.web_service_port) == (0, 0)


def test_all_errors_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as refusal:
        read("maxMessageSize=x\nstatsUpdateFrequencyInSecs=0\nclusterName=?")
    assert len(refusal.value.problems) == 3


@pytest.mark.parametrize("key", UNSAFE)
@pytest.mark.parametrize("value", ["true", "6651", "yes"])
def test_a_key_that_would_be_less_safe_if_ignored_stops_the_start(key: str, value: str) -> None:
    message = refused(f"{key}={value}")
    assert message.startswith(f"test.conf:1: {key}={value}: ")
    assert "remove the key" in message


@pytest.mark.parametrize("key", NOT_BUILT)
def test_a_feature_that_is_missing_is_a_warning_each(key: str) -> None:
    settings, warnings = read(f"{key}=17")
    assert settings == Settings()
    assert warnings == [f"test.conf:1: {key} is {NOT_BUILT[key].consequence}"]


def test_keys_without_effect_are_one_warning_that_does_not_show_values() -> None:
    settings, warnings = read("brokerClientAuthenticationParameters=token:abc\nnumIOThreads=4")
    assert settings == Settings()
    assert warnings == [
        "known to Pulsar and without effect here: brokerClientAuthenticationParameters, "
        "numIOThreads"
    ]


def test_unknown_keys_are_one_warning_with_a_guess() -> None:
    settings, warnings = read("maxMesageSize=1\nfancyPlugin.x=2")
    assert settings == Settings()
    assert warnings == [
        "unknown, and ignored: maxMesageSize (test.conf:1; did you mean maxMessageSize?), "
        "fancyPlugin.x (test.conf:2)"
    ]


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("maxmessagesize", "maxMessageSize"),
        ("max_message_size", "maxMessageSize"),
        ("managed-ledger.cache-size-mb", "managedLedgerCacheSizeMB"),
        ("dataDirectory", "magnetarDataDirectory"),
        ("retentionTimeInMinutes", "defaultRetentionTimeInMinutes"),
    ],
)
def test_the_nearest_key_is_named_wherever_the_unknown_one_stands(key: str, meant: str) -> None:
    _, (in_file,) = read(f"{key}=1")
    _, (in_environment,) = interpret(None, "", {f"PULSAR_PREFIX_{key}": "1"}, {})
    assert in_file == f"unknown, and ignored: {key} (test.conf:1; did you mean {meant}?)"
    assert f"(environment variable PULSAR_PREFIX_{key}; did you mean {meant}?)" in in_environment


@pytest.mark.parametrize(
    "line", ["maxMessageSize", "this is prose", "[section]", "<<<<<<< HEAD", "MIIEvQIBADANBg"]
)
def test_a_line_that_is_not_a_setting_is_refused_and_not_shown(line: str) -> None:
    message = refused(f"maxMessageSize=7\n{line}\n")
    assert message == "test.conf:2: not a setting: expected key=value, or a comment (#)"


def test_every_line_that_is_not_a_setting_is_named() -> None:
    message = refused("one\ntwo=2\nmaxMessageSize=x\nthree")
    assert [line.rpartition("/")[2].split(":")[1] for line in message.splitlines()] == [
        "1", "4", "3",
    ]  # fmt: skip


def test_blanks_separate_a_known_key_from_its_value() -> None:
    settings, warnings = read("maxMessageSize 17\nnumIOThreads\t8\n")
    assert settings.max_message_size == 17
    assert warnings == ["known to Pulsar and without effect here: numIOThreads"]


def test_a_variable_without_the_prefix_is_a_warning() -> None:
    environ = dict.fromkeys(("maxMessageSize", "PULSAR_maxMessageSize", "PATH", "a_port"), "1")
    settings, warnings = interpret(None, "", environ, {})
    assert settings == Settings()
    assert warnings == [
        f"environment variable {name} has no effect: did you mean PULSAR_PREFIX_maxMessageSize?"
        for name in ("PULSAR_maxMessageSize", "maxMessageSize")
    ]


def test_a_plain_name_beside_the_prefixed_one_does_not_count() -> None:
    environ = {"PULSAR_PREFIX_maxMessageSize": "1", "maxMessageSize": "2"}
    for text in ("", "maxMessageSize=3"):
        settings, warnings = interpret("test.conf", text, environ, {})
        assert settings.max_message_size == 1
        assert [warning.split()[2] for warning in warnings] == ["maxMessageSize"]


@pytest.mark.parametrize("key", UNSAFE)
def test_a_plain_name_of_a_key_that_would_stop_the_start_is_a_warning(key: str) -> None:
    (warning,) = interpret(None, "", {key: "true"}, {}).warnings
    assert warning.endswith(f"did you mean PULSAR_PREFIX_{key}?")


def test_the_last_of_repeated_lines_counts() -> None:
    settings, warnings = read("maxMessageSize=1\nfoo=1\nmaxMessageSize=2")
    assert settings.max_message_size == 2
    assert warnings[0] == (
        "test.conf: 1 set more than once, and the last line counts: maxMessageSize (lines 1, 3)"
    )


def test_a_bad_value_that_a_later_line_replaces_is_no_error() -> None:
    settings, _ = read("maxMessageSize=x\nmaxMessageSize=2")
    assert settings.max_message_size == 2


def test_the_environment_overrides_the_file_and_the_command_line_both() -> None:
    file = "maxMessageSize=1\nkeepAliveIntervalSeconds=1\nretentionCheckIntervalInSeconds=1"
    environ = {
        "PULSAR_PREFIX_keepAliveIntervalSeconds": " 2 ",
        "PULSAR_PREFIX_retentionCheckIntervalInSeconds": "2",
    }
    settings, warnings = interpret(
        "test.conf", file, environ, {"retentionCheckIntervalInSeconds": "3"}
    )
    assert settings.max_message_size == 1
    assert settings.keep_alive_interval_seconds == 2
    assert settings.retention_check_interval_in_seconds == 3
    assert warnings == []


def test_the_environment_can_unset_what_a_file_sets() -> None:
    file = "brokerServicePortTls=6651\nmaxMessageSize=1"
    environ = {"PULSAR_PREFIX_brokerServicePortTls": "", "PULSAR_PREFIX_maxMessageSize": ""}
    assert interpret("test.conf", file, environ, {}) == (Settings(), [])


def test_plain_names_in_the_environment_are_not_read() -> None:
    environ = {"maxMessageSize": "1", "authenticationEnabled": "true", "clusterName": "x"}
    assert interpret(None, "", environ, {}).settings == Settings()


def test_an_error_names_the_environment_variable_or_the_command_line() -> None:
    with pytest.raises(ConfigError) as refusal:
        interpret(None, "", {"PULSAR_PREFIX_maxMessageSize": "x"}, {"webServicePort": "-1"})
    variable, argument = refusal.value.problems
    assert variable.startswith(
        "environment variable PULSAR_PREFIX_maxMessageSize: maxMessageSize=x: expected"
    )
    assert argument.startswith("command line: webServicePort=-1: expected")


@pytest.mark.parametrize(
    ("time", "size", "doubtful"), [(60, 0, True), (0, -1, True), (60, -1, False)]
)
def test_half_a_retention_is_a_warning(time: int, size: int, doubtful: bool) -> None:
    _, warnings = read(f"defaultRetentionTimeInMinutes={time}\ndefaultRetentionSizeInMB={size}")
    assert any("nothing is retained" in warning for warning in warnings) is doubtful


def test_an_address_that_listeners_replace_is_a_warning() -> None:
    line = "advertisedListeners=in:pulsar://b1:6650"
    assert read(line)[1] == []
    (warning,) = read(f"{line}\nadvertisedAddress=b2")[1]
    assert warning.startswith("advertisedAddress=b2 has no effect")


def test_a_file_is_read_with_or_without_a_mark_at_its_start(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes("maxMessageSize=7\nclusterName=köln\n".encode("utf-8-sig"))
    settings, warnings = load(str(path), {}, {})
    assert (settings.max_message_size, settings.cluster_name) == (7, "köln")
    assert warnings == []


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.conf: No such file"):
        load(str(tmp_path / "absent.conf"), {}, {})


def test_a_file_that_is_no_text_is_an_error_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "broken.conf"
    path.write_bytes(b"key=\xff\n")
    with pytest.raises(ConfigError, match=r"broken\.conf: byte 4 is not UTF-8"):
        load(str(path), {}, {})


LINES = st.tuples(
    st.sampled_from([*(key.name for key in KEYS.values()), *UNSAFE, *NOT_BUILT, *COMPATIBLE, "x"]),
    st.sampled_from(["", "0", "-1", "1", "true", "false", "fsync", "a/b", "Shared", "99999999999"]),
)


@given(st.lists(LINES))
def test_a_file_is_either_settings_or_named_problems(lines: list[tuple[str, str]]) -> None:
    try:
        settings, _ = read("".join(f"{key}={value}\n" for key, value in lines))
    except ConfigError as refusal:
        assert refusal.problems
        for problem in refusal.problems:
            assert re.match(r"(test\.conf:\d+|default): \w+=.*: .", problem)
    else:
        for key, value in dict(lines).items():
            assert key not in UNSAFE or UNSAFE[key].is_quiet(value)
        assert isinstance(settings, Settings)
