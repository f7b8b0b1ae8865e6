package magnetar.clients;

import com.google.protobuf.Timestamp;
import java.sql.Time;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.Date;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.schema.GenericRecord;
import org.apache.pulsar.common.schema.KeyValue;
import org.apache.pulsar.common.schema.KeyValueEncodingType;
import org.apache.pulsar.common.schema.SchemaType;

/** Values on topics that the asyncio client shares. */
final class Values {
    private static final long MOMENT_MS = 1_700_000_000_000L;

    private Values() {}

    private static Schemas.Person ada() {
        var person = new Schemas.Person();
        person.name = "Ada";
        return person;
    }

    private static <T> Message<T> next(Consumer<T> consumer) throws Exception {
        var message = consumer.receive(Stage.WAIT_S, TimeUnit.SECONDS);
        Check.that(message != null, "no message comes");
        return message;
    }

    /** Both send the same value, and receive it twice. */
    private static <T> void shared(Stage stage, String kind, Schema<T> schema, T value) throws Exception {
        shared(stage, kind, schema, value, same -> same);
    }

    private static <T> void shared(Stage stage, String kind, Schema<T> schema, T value, Function<T, Object> content)
            throws Exception {
        var topic = stage.topic + "-" + kind;
        var consumer = stage.client().newConsumer(schema).topic(topic).subscriptionName("sub").subscribe();
        stage.client().newProducer(schema).topic(topic).create().send(value);
        stage.shareValue(topic, kind);
        for (var sender : new String[] {"Java", "asyncio"}) {
            var received = content.apply(next(consumer).getValue());
            Check.that(received.equals(content.apply(value)), () -> kind + " of " + sender + ": " + received);
        }
        var anything = stage.client().newConsumer(Schema.AUTO_CONSUME()).topic(topic).subscriptionName("any")
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
        for (int i = 0; i < 2; i++) {
            var record = next(anything).getValue();
            Check.equal(record.getSchemaType(), schema.getSchemaInfo().getType());
            if (record.getSchemaType() == SchemaType.KEY_VALUE) {
                var pair = (KeyValue<?, ?>) record.getNativeObject();
                Check.equal(pair.getKey(), "key");
                Check.equal(((GenericRecord) pair.getValue()).getField("name").toString(), "Ada");
            }
        }
    }

    @Scenario
    static void primitives(Stage stage) throws Exception {
        shared(stage, "string", Schema.STRING, "tëxt");
        shared(stage, "bool", Schema.BOOL, true);
        shared(stage, "int8", Schema.INT8, (byte) -8);
        shared(stage, "int16", Schema.INT16, (short) -16);
        shared(stage, "int32", Schema.INT32, -32);
        shared(stage, "int64", Schema.INT64, -64L);
        shared(stage, "float", Schema.FLOAT, 0.5f);
        shared(stage, "double", Schema.DOUBLE, 0.1);
    }

    @Scenario
    static void times(Stage stage) throws Exception {
        shared(stage, "date", Schema.DATE, new Date(MOMENT_MS));
        shared(stage, "time", Schema.TIME, new Time(45_000_000L));
        shared(stage, "timestamp", Schema.TIMESTAMP, new java.sql.Timestamp(MOMENT_MS));
        shared(stage, "instant", Schema.INSTANT, Instant.ofEpochMilli(MOMENT_MS).plusNanos(7_000));
        shared(stage, "local_date", Schema.LOCAL_DATE, LocalDate.of(1969, 12, 31));
        shared(stage, "local_time", Schema.LOCAL_TIME, LocalTime.of(12, 30, 1, 7_000));
        shared(stage, "local_date_time", Schema.LOCAL_DATE_TIME, LocalDateTime.of(2024, 2, 29, 12, 30));
    }

    @Scenario
    static void records(Stage stage) throws Exception {
        shared(stage, "avro", Schema.AVRO(Schemas.Person.class), ada(), person -> person.name);
        shared(stage, "json", Schema.JSON(Schemas.Person.class), ada(), person -> person.name);
    }

    @Scenario
    static void pairs(Stage stage) throws Exception {
        for (var encoding : KeyValueEncodingType.values()) {
            var schema = Schema.KeyValue(Schema.STRING, Schema.AVRO(Schemas.Person.class), encoding);
            shared(stage, encoding.name().toLowerCase(), schema, new KeyValue<>("key", ada()),
                    pair -> pair.getKey() + " " + pair.getValue().name);
        }
    }

    @Scenario
    static void protobufMessages(Stage stage) throws Exception {
        var moment = Timestamp.newBuilder().setSeconds(MOMENT_MS).setNanos(5).build();
        shared(stage, "protobuf_native", Schema.PROTOBUF_NATIVE(Timestamp.class), moment);
        var topic = stage.topic + "-protobuf";
        var consumer = stage.client().newConsumer(Schema.PROTOBUF(Timestamp.class)).topic(topic)
                .subscriptionName("sub").subscribe();
        stage.client().newProducer(Schema.PROTOBUF(Timestamp.class)).topic(topic).create().send(moment);
        stage.shareValue(topic, "protobuf");
        Check.equal(next(consumer).getValue(), moment);
        var second = next(consumer);
        Check.equal(second.getValue(), moment);
        Check.equal(second.getSchemaVersion()[7], (byte) 0);
    }
}
