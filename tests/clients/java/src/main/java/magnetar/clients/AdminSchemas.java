package magnetar.clients;

import java.util.List;
import java.util.Map;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.admin.PulsarAdminException.NotFoundException;
import org.apache.pulsar.client.admin.Schemas;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.common.protocol.schema.PostSchemaPayload;
import org.apache.pulsar.common.schema.SchemaType;

/** Schemas, by every method of the official admin client. */
final class AdminSchemas {
    private AdminSchemas() {}

    static final class Old {
        public int number;
    }

    static final class New {
        public int number;
        public String text;
    }

    static final class Other {
        public String number;
    }

    @Scenario
    static void everyMethod(Stage stage) throws Exception {
        var recorder = new Recorder<>(Schemas.class, stage.admin().schemas());
        var schemas = recorder.api;
        var topic = stage.topic;
        stage.admin().topics().createNonPartitionedTopic(topic);
        Check.refused(NotFoundException.class, () -> schemas.getSchemaInfo(topic));
        var old = Schema.AVRO(Old.class).getSchemaInfo();
        var next = Schema.AVRO(New.class).getSchemaInfo();
        schemas.createSchema(topic, old);
        schemas.createSchema(topic, payload(next.getSchemaDefinition()));
        Check.equal(schemas.getSchemaInfo(topic).getType(), SchemaType.AVRO);
        Check.equal(schemas.getSchemaInfo(topic).getSchemaDefinition(), next.getSchemaDefinition());
        Check.equal(schemas.getSchemaInfo(topic, 0).getSchemaDefinition(), old.getSchemaDefinition());
        Check.equal(schemas.getSchemaInfoWithVersion(topic).getVersion(), 1L);
        Check.equal(schemas.getAllSchemas(topic).size(), 2);
        Check.equal(schemas.getVersionBySchema(topic, old), 0L);
        Check.equal(schemas.getVersionBySchema(topic, payload(next.getSchemaDefinition())), 1L);
        Check.equal(schemas.testCompatibility(topic, next).isCompatibility(), true);
        var other = Schema.AVRO(Other.class).getSchemaInfo();
        Check.equal(schemas.testCompatibility(topic, payload(next.getSchemaDefinition())).isCompatibility(), true);
        Check.refused(PulsarAdminException.class, () -> schemas.createSchema(topic, other));
        var metadata = schemas.getSchemaMetadata(topic);
        Check.equal(metadata.getInfo().getVersion(), 1L);
        Check.equal(metadata.getIndex().size(), 2);
        Check.refused(NotFoundException.class, () -> schemas.getSchemaInfo(topic, 9));
        schemas.deleteSchema(topic);
        Check.refused(NotFoundException.class, () -> schemas.getSchemaInfo(topic));
        schemas.createSchema(topic, old);
        schemas.deleteSchema(topic, true);
        Check.equal(List.copyOf(schemas.getAllSchemas(topic)), List.of());
        recorder.expectAllBut(Map.of());
    }

    private static PostSchemaPayload payload(String definition) {
        return new PostSchemaPayload("AVRO", definition, Map.of());
    }
}
