package magnetar.clients;

import com.google.protobuf.Duration;
import com.google.protobuf.Timestamp;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.Date;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClientException.IncompatibleSchemaException;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.schema.SchemaDefinition;
import org.apache.pulsar.common.schema.KeyValue;
import org.apache.pulsar.common.schema.KeyValueEncodingType;
import org.apache.pulsar.common.schema.SchemaType;

/** Messages that look like something. */
final class Schemas {
    private static final String PERSON = """
            {"type":"record","name":"Person","fields":[{"name":"name","type":"string"}]}""";
    private static final String OLDER = """
            {"type":"record","name":"Person","fields":[{"name":"name","type":"string"},
            {"name":"age","type":"int","default":-1}]}""";

    private Schemas() {}

    /** What was there first. */
    public static final class Person {
        public String name;
    }

    /** A person, with a field more. */
    public static final class Older {
        public String name;
        public Integer age;
    }

    /** Something else. */
    public static final class Stranger {
        public int shoe;
    }

    private static <T> Producer<T> producer(Stage stage, Schema<T> schema) throws Exception {
        return stage.client().newProducer(schema).topic(stage.topic).create();
    }

    private static <T> Consumer<T> consumer(Stage stage, Schema<T> schema, String name) throws Exception {
        return stage.client().newConsumer(schema).topic(stage.topic).subscriptionName(name)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
    }

    private static <T> Message<T> next(Consumer<T> consumer) throws Exception {
        var message = consumer.receive(Stage.WAIT_S, TimeUnit.SECONDS);
        Check.that(message != null, "no message comes");
        return message;
    }

    private static Person named(String name) {
        var person = new Person();
        person.name = name;
        return person;
    }

    private static Older aged(String name, int age) {
        var person = new Older();
        person.name = name;
        person.age = age;
        return person;
    }

    private static <T> void roundTrip(Stage stage, String suffix, Schema<T> schema, T value) throws Exception {
        var topic = stage.topic + suffix;
        var consumer = stage.client().newConsumer(schema).topic(topic).subscriptionName("sub").subscribe();
        stage.client().newProducer(schema).topic(topic).create().send(value);
        var anything = stage.client().newConsumer(Schema.AUTO_CONSUME()).topic(topic).subscriptionName("any")
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
        var received = next(consumer).getValue();
        Check.that(Objects.deepEquals(received, value), () -> suffix + ": " + received + " is not " + value);
        Check.equal(next(anything).getValue().getSchemaType(), schema.getSchemaInfo().getType());
    }

    @Scenario
    static void primitiveTypes(Stage stage) throws Exception {
        roundTrip(stage, "-string", Schema.STRING, "text");
        roundTrip(stage, "-bool", Schema.BOOL, true);
        roundTrip(stage, "-int8", Schema.INT8, (byte) 8);
        roundTrip(stage, "-int16", Schema.INT16, (short) 16);
        roundTrip(stage, "-int32", Schema.INT32, 32);
        roundTrip(stage, "-int64", Schema.INT64, 64L);
        roundTrip(stage, "-float", Schema.FLOAT, 0.5f);
        roundTrip(stage, "-double", Schema.DOUBLE, 0.25);
        roundTrip(stage, "-date", Schema.DATE, new Date(1_700_000_000_000L));
        roundTrip(stage, "-instant", Schema.INSTANT, Instant.ofEpochSecond(1_700_000_000L, 5));
        roundTrip(stage, "-local-date", Schema.LOCAL_DATE, LocalDate.of(2024, 2, 29));
        roundTrip(stage, "-local-time", Schema.LOCAL_TIME, LocalTime.of(12, 30, 1, 7));
        roundTrip(stage, "-local-date-time", Schema.LOCAL_DATE_TIME, LocalDateTime.of(2024, 2, 29, 12, 30));
    }

    @Scenario
    static void recordsEvolve(Stage stage) throws Exception {
        for (var kind : new SchemaType[] {SchemaType.AVRO, SchemaType.JSON}) {
            var topic = stage.topic + kind;
            Schema<Person> person = kind == SchemaType.AVRO ? Schema.AVRO(Person.class) : Schema.JSON(Person.class);
            Schema<Older> older = kind == SchemaType.AVRO ? Schema.AVRO(Older.class) : Schema.JSON(Older.class);
            stage.client().newProducer(person).topic(topic).create().send(named("Ada"));
            stage.client().newProducer(older).topic(topic).create().send(aged("Eve", 37));
            var consumer = stage.client().newConsumer(older).topic(topic).subscriptionName("older")
                    .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
            var first = next(consumer);
            Check.equal(first.getValue().name, "Ada");
            Check.equal(first.getValue().age, null);
            Check.equal(first.getSchemaVersion()[7], (byte) 0);
            var second = next(consumer);
            Check.equal(second.getValue().age, 37);
            Check.equal(second.getSchemaVersion()[7], (byte) 1);
        }
    }

    @Scenario
    static void oldAndNewReleasesReadEachOther(Stage stage) throws Exception {
        Schema<Person> old = Schema.AVRO(SchemaDefinition.<Person>builder().withJsonDef(PERSON).build());
        Schema<Older> young = Schema.AVRO(SchemaDefinition.<Older>builder().withJsonDef(OLDER).build());
        var generic = Schema.generic(young.getSchemaInfo());
        var record = generic.newRecordBuilder().set("name", "Eve").set("age", 37).build();
        var writer = stage.client().newProducer(Schema.generic(old.getSchemaInfo())).topic(stage.topic).create();
        writer.send(Schema.generic(old.getSchemaInfo()).newRecordBuilder().set("name", "Ada").build());
        stage.client().newProducer(generic).topic(stage.topic).create().send(record);
        var consumer = consumer(stage, Schema.AUTO_CONSUME(), "any");
        var first = next(consumer).getValue();
        Check.equal(first.getField("name").toString(), "Ada");
        Check.equal(first.getFields().size(), 1);
        var second = next(consumer).getValue();
        Check.equal(second.getField("age"), 37);
    }

    @Scenario
    static void strangersAreRefused(Stage stage) throws Exception {
        producer(stage, Schema.AVRO(Person.class));
        Check.refused(IncompatibleSchemaException.class, () -> producer(stage, Schema.STRING));
        Check.refused(IncompatibleSchemaException.class, () -> producer(stage, Schema.JSON(Person.class)));
        Check.refused(IncompatibleSchemaException.class, () -> producer(stage, Schema.AVRO(Stranger.class)));
        Check.refused(IncompatibleSchemaException.class, () -> consumer(stage, Schema.AVRO(Stranger.class), "sub"));
        producer(stage, Schema.BYTES).close();
        consumer(stage, Schema.BYTES, "bytes").close();
    }

    @Scenario
    static void keysAndValues(Stage stage) throws Exception {
        for (var encoding : KeyValueEncodingType.values()) {
            var topic = stage.topic + encoding;
            var schema = Schema.KeyValue(Schema.STRING, Schema.AVRO(Person.class), encoding);
            var consumer = stage.client().newConsumer(schema).topic(topic).subscriptionName("sub").subscribe();
            stage.client().newProducer(schema).topic(topic).create().send(new KeyValue<>("key", named("Ada")));
            var received = next(consumer);
            Check.equal(received.getValue().getKey(), "key");
            Check.equal(received.getValue().getValue().name, "Ada");
            Check.equal(received.hasKey(), encoding == KeyValueEncodingType.SEPARATED);
            var other = Schema.KeyValue(Schema.INT32, Schema.AVRO(Person.class), encoding);
            Check.refused(IncompatibleSchemaException.class,
                    () -> stage.client().newProducer(other).topic(topic).create());
        }
    }

    @Scenario
    static void protobufMessages(Stage stage) throws Exception {
        var moment = Timestamp.newBuilder().setSeconds(1_700_000_000L).setNanos(5).build();
        roundTrip(stage, "-native", Schema.PROTOBUF_NATIVE(Timestamp.class), moment);
        Check.refused(IncompatibleSchemaException.class, () -> stage.client()
                .newProducer(Schema.PROTOBUF_NATIVE(Duration.class)).topic(stage.topic + "-native").create());
        var consumer = consumer(stage, Schema.PROTOBUF(Timestamp.class), "sub");
        producer(stage, Schema.PROTOBUF(Timestamp.class)).send(moment);
        Check.equal(next(consumer).getValue(), moment);
        Check.refused(IncompatibleSchemaException.class, () -> producer(stage, Schema.AVRO(Person.class)));
    }

    @Scenario
    static void bytesThatAreChecked(Stage stage) throws Exception {
        producer(stage, Schema.AVRO(Person.class));
        var consumer = consumer(stage, Schema.AVRO(Person.class), "sub");
        var producer = producer(stage, Schema.AUTO_PRODUCE_BYTES());
        producer.send(Schema.AVRO(Person.class).encode(named("Ada")));
        Check.equal(next(consumer).getValue().name, "Ada");
        Check.refused(Exception.class, () -> producer.send(new byte[] {2, 99}));
    }

    @Scenario
    static void messagesOfSeveralSchemasFromOneProducer(Stage stage) throws Exception {
        var producer = producer(stage, Schema.AVRO(Person.class));
        producer.send(named("Ada"));
        producer.newMessage(Schema.AVRO(Older.class)).value(aged("Eve", 37)).send();
        var consumer = consumer(stage, Schema.AVRO(Older.class), "sub");
        Check.equal(next(consumer).getValue().age, null);
        Check.equal(next(consumer).getValue().age, 37);
        Check.refused(IncompatibleSchemaException.class,
                () -> producer.newMessage(Schema.AVRO(Stranger.class)).value(new Stranger()).send());
    }

    @Scenario
    static void aSchemaOutlivesItsClients(Stage stage) throws Exception {
        producer(stage, Schema.AVRO(Person.class)).close();
        producer(stage, Schema.AVRO(Older.class)).close();
        var any = consumer(stage, Schema.AUTO_CONSUME(), "any");
        producer(stage, Schema.AVRO(Person.class)).send(named("Ada"));
        var received = next(any);
        Check.equal(received.getSchemaVersion()[7], (byte) 0);
        Check.equal(received.getValue().getField("name").toString(), "Ada");
    }
}
