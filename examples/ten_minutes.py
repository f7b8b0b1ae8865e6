# %% [markdown]
# # Ten minutes with Magnetar and Spark
#
# A notebook as a program: editors such as VS Code and PyCharm run it cell by cell. It needs
# `pip install 'magnetar[spark]'`, Java 17, and a broker: `magnetar standalone`.

# %%
import os
import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql.functions import avg, col, count

SERVICE_URL = os.environ.get("SERVICE_URL", "pulsar://localhost:6650")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers run the same Python
spark = SparkSession.builder.master("local[2]").appName("ten-minutes").getOrCreate()

# %% [markdown]
# ## Write rows
#
# Columns that begin with `__` describe the message. Several others become an Avro record, whose
# schema is registered with the topic.

# %%
readings = spark.range(1000).selectExpr(
    "concat('sensor-', id % 5) AS sensor",
    "id AS number",
    "20 + (id % 7) / 2 AS celsius",
    "concat('sensor-', id % 5) AS __key",
    "timestamp_seconds(1767225600 + id) AS __eventTime",
)
(
    readings.write.format("pulsar")
    .mode("append")
    .option("service.url", SERVICE_URL)
    .option("topic", "readings")
    .option("initialSubscriptionName", "kept")  # topics that nobody uses are deleted soon
    .save()
)

# %% [markdown]
# ## Read what is there
#
# A batch read ends with what the topic had when it was planned.

# %%
messages = (
    spark.read.format("pulsar")
    .option("service.url", SERVICE_URL)
    .option("topic", "readings")
    .load()
)
messages.select(col("__key").cast("string"), "__eventTime", "__messageId").show(3)
written = messages.count()

# %% [markdown]
# ## Write text, and follow it as a stream
#
# A query notes in its checkpoint how far it is. Started again, it goes on there.

# %%
lines = readings.selectExpr("to_json(struct(sensor, celsius)) AS value", "__key", "__eventTime")
(
    lines.write.format("pulsar")
    .mode("append")
    .option("service.url", SERVICE_URL)
    .option("topic", "readings-json")
    .option("initialSubscriptionName", "kept")
    .save()
)
stream = (
    spark.readStream.format("pulsar")
    .option("service.url", SERVICE_URL)
    .option("topic", "readings-json")
    .option("startingOffsets", "earliest")
    .load()
    .selectExpr("from_json(CAST(value AS STRING), 'sensor STRING, celsius DOUBLE') AS reading")
    .select("reading.*")
)
query = (
    stream.groupBy("sensor")
    .agg(count("*").alias("readings"), avg("celsius").alias("celsius"))
    .writeStream.format("memory")
    .queryName("by_sensor")
    .outputMode("complete")
    .option("checkpointLocation", tempfile.mkdtemp())
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()

# %%
by_sensor = spark.table("by_sensor").orderBy("sensor")
by_sensor.show()
