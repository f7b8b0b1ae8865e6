"""The data source that Spark finds as `format("pulsar")`."""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from pyspark_magnetar.extras import require

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyspark_magnetar.source.read_options import ReadOptions

# Spark imports this module in every session, also those that read from no broker: everything
# else is imported where it is needed.
# ruff: noqa: PLC0415


class DefaultSource(DataSource):
    """Reads messages of a topic as rows, and writes rows as messages.

    `option_table` declares the options.
    """

    @classmethod
    def name(cls) -> str:
        return "pulsar"

    def schema(self) -> "StructType":
        # Called before it is known how the source is read: the columns are the same.
        return self._reading(is_streaming=None)[1]

    def reader(self, schema: "StructType") -> DataSourceReader:
        require("pyarrow")
        from pyspark_magnetar.rows.source_schema import require_source_schema
        from pyspark_magnetar.source.reader import BatchReader, FilteringBatchReader

        options, own = self._reading(is_streaming=False)
        require_source_schema(schema, own)
        return FilteringBatchReader(options) if options.pushes_filters else BatchReader(options)

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:
        require("pyarrow")
        from pyspark_magnetar.rows.source_schema import require_source_schema
        from pyspark_magnetar.source.reader import StreamReader

        options, own = self._reading(is_streaming=True)
        require_source_schema(schema, own)
        return StreamReader(options)

    def _reading(self, is_streaming: bool | None) -> "tuple[ReadOptions, StructType]":
        """Return the options and the resulting columns; asks for the topic's schema if needed."""
        from pyspark_magnetar.rows.source_schema import source_schema
        from pyspark_magnetar.source.read_options import ReadOptions

        options = ReadOptions.parse(self.options, is_streaming=is_streaming)
        if options.values.mode != "auto":
            return options, source_schema(options.columns)
        from pyspark_magnetar.rows.value_schema import value_fields
        from pyspark_magnetar.source.topic_schema import resolved

        options = resolved(options)
        if options.value_schema is None:
            return options, source_schema(options.columns)
        fields = value_fields(options.value_schema, options.values.on_corrupt)
        return options, source_schema(options.columns, fields)

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        require("pyarrow")
        from pyspark_magnetar.sink.write_options import WriteOptions
        from pyspark_magnetar.sink.writer import BatchWriter, require_append

        require_append(overwrite)
        return BatchWriter(WriteOptions.parse(self.options), schema)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> DataSourceStreamWriter:
        require("pyarrow")
        from pyspark_magnetar.sink.write_options import WriteOptions
        from pyspark_magnetar.sink.writer import StreamWriter, require_append

        require_append(overwrite)
        return StreamWriter(WriteOptions.parse(self.options), schema)


class MagnetarSource(DefaultSource):
    """`DefaultSource` as `format("magnetar")`, for use beside a Java connector named pulsar.

    It must be registered: `spark.dataSource.register(MagnetarSource)`.
    """

    @classmethod
    def name(cls) -> str:
        return "magnetar"
