"""Pulsar's keys without effect here: whether each is ignored, warned about or refused.

A value that Pulsar ships is quiet.  Another one stops the start where ignoring it would
leave the broker less safe, and is a warning otherwise.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

_PACKAGE = re.compile(r"org\.apache\.[\w.]*\.")
"""The Java packages that are left out when values that name classes are compared."""

_BUNDLE_SPLITS = ",".join(
    f"{name}_divide"
    for name in (
        "range_equally",
        "topic_count_equally",
        "specified_positions",
        "flow_or_qps_equally",
    )
)
_SCHEMA_CHECKERS = ",".join(
    f"{kind}SchemaCompatibilityCheck" for kind in ("Json", "Avro", "ProtobufNative")
)


@dataclass(frozen=True)
class UnsupportedKey:
    """A key that is accepted; any value except the quiet ones has the given `consequence`."""

    name: str
    quiet: frozenset[str]
    consequence: str
    dynamic: bool = False
    """Whether Pulsar can change the key at run time; such a change is then accepted as well."""

    def is_quiet(self, value: str) -> bool:
        """Return whether no warning is needed: the value is blank, or one that Pulsar ships."""
        return not value or _PACKAGE.sub("", value).lower() in self.quiet


def _table(groups: Mapping[str, str]) -> dict[str, UnsupportedKey]:
    """Return keys by name for `{consequence: "key=quiet|quiet key*=quiet"}`; `*` is dynamic."""
    return {known.name: known for known in _entries(groups)}


def _entries(groups: Mapping[str, str]) -> Iterator[UnsupportedKey]:
    for consequence, keys in groups.items():
        for word in keys.split():
            marked, _, quiet = word.partition("=")
            name = marked.removesuffix("*")
            yield UnsupportedKey(name, _values(quiet), consequence, dynamic=name != marked)


@cache
def _values(quiet: str) -> frozenset[str]:
    """Return the values in a text, one set for all keys that have the same."""
    return frozenset(quiet.lower().split("|"))


UNSAFE = _table(
    {
        "Java keystores are not read: export key and certificates to PEM (`openssl pkcs12 -in "
        "STORE -nodes -out FILE`, for JKS after `keytool -importkeystore -srckeystore STORE "
        "-destkeystore STORE.p12 -deststoretype PKCS12`), name the files in "
        "tlsCertificateFilePath, tlsKeyFilePath and tlsTrustCertsFilePath, and remove the key": """
            tlsEnabledWithKeyStore=false""",
        "this broker has one set of rules, that of the class "
        "org.apache.pulsar.broker.authorization.PulsarAuthorizationProvider: name this one, or "
        "remove the key": """
            authorizationProvider=PulsarAuthorizationProvider""",
    }
)
"""Keys that stop the start unless quiet: ignoring them would be less safe."""


NOT_BUILT = _table(
    {
        "not built yet: HTTP requests will not be throttled": """
            httpRequestsLimitEnabled=false""",
        "not built yet: there will be no WebSocket service": """
            webSocketServiceEnabled=false""",
        "not built yet: functions will not run": """
            functionsWorkerEnabled=false""",
        "not built yet: packages will not be kept": """
            enablePackagesManagement=false""",
        "not built yet: the broker listens on brokerServicePort and webServicePort only": """
            bindAddresses=""",
        "not built yet: connections that begin with a PROXY header will be refused": """
            haProxyProtocolEnabled=false webServiceHaProxyProtocolEnabled=false""",
        "not built yet: subscription names will not be checked": """
            strictlyVerifySubscriptionName*=false""",
        "not built yet: old client libraries will not be refused": """
            clientLibraryVersionCheckEnabled*=false""",
        "not built yet: entries will not be filtered or intercepted": """
            entryFilterNames*= brokerInterceptors=""",
        "not built yet: with magnetarDamagedEntries=skip what is damaged is skipped": """
            autoSkipNonRecoverableData*=false managedLedgerForceRecovery*=false
            schemaLedgerForceRecovery*=false""",
        "not built yet: this broker is on its own, with its metadata in magnetarDataDirectory": """
            configurationMetadataStoreUrl= zookeeperServers= configurationStoreServers=
            globalZookeeperServers=""",
        "not built yet: topics will not move to another cluster": """
            clusterMigrationCheckDurationSeconds=0 clusterMigrationAutoResourceCreation=false""",
    }
)
"""Keys of Pulsar's features that are missing here: one warning for each that is wanted."""


COMPATIBLE = _table(
    {
        "tunes a way to authenticate that this broker does not have": """
            athenzDomainNames= saslJaasClientAllowedIds=.*pulsar.*
            saslJaasServerSectionName=PulsarBroker saslJaasServerRoleTokenSignerSecretPath=
            kinitCommand=/usr/bin/kinit openIDFallbackDiscoveryMode=DISABLED""",
        "tunes Java's TLS and its keystores; PEM files are read by Python's ssl": """
            tlsProvider= webServiceTlsProvider=Conscrypt tlsKeyStoreType=JKS tlsKeyStore=
            tlsKeyStorePassword= tlsTrustStoreType=JKS tlsTrustStore= tlsTrustStorePassword=
            sslFactoryPlugin=DefaultPulsarSslFactory sslFactoryPluginParams=""",
        "tunes the broker's own client, and this broker has none": """
            brokerClientAuthenticationPlugin*=AuthenticationDisabled
            brokerClientAuthenticationParameters*= brokerClientTlsEnabled*=false
            brokerClientTlsEnabledWithKeyStore=false brokerClientSslProvider=
            brokerClientTrustCertsFilePath= brokerClientKeyFilePath=
            brokerClientCertificateFilePath= brokerClientTlsKeyStoreType=JKS
            brokerClientTlsKeyStore= brokerClientTlsKeyStorePassword=
            brokerClientTlsTrustStoreType=JKS brokerClientTlsTrustStore=
            brokerClientTlsTrustStorePassword= brokerClientTlsCiphers= brokerClientTlsProtocols=
            tlsHostnameVerificationEnabled=false
            brokerClientSslFactoryPlugin=DefaultPulsarSslFactory brokerClientSslFactoryPluginParams=
            """,
        "tunes threads, Netty or the JVM, which this broker does not have": """
            numAcceptorThreads= numIOThreads= numOrderedExecutorThreads=8 numHttpServerThreads=
            numExecutorThreadPoolSize= numCacheExecutorThreadPoolSize=10 enableBusyWait=false
            topicOrderedExecutorThreadNum= numWorkerThreadsForNonPersistentTopic=8
            skipBrokerShutdownOnOOM*=false topicFactoryClassName*= topicNameCacheMaxCapacity*=100000
            maxSecondsToClearTopicNameCache=7200
            dispatcherDispatchMessagesInSubscriptionThread*=true
            pulsarChannelWriteBufferHighWaterMark=65536 pulsarChannelWriteBufferLowWaterMark=32768
            pulsarChannelPauseReceivingRequestsIfUnwritable=false
            pulsarChannelPauseReceivingCooldownMs=5000
            pulsarChannelPauseReceivingCooldownRateLimitPermits=5
            pulsarChannelPauseReceivingCooldownRateLimitPeriodMs=10
            maxTopicListInFlightHeapMemSizeMB=100 maxTopicListInFlightDirectMemSizeMB=100
            maxTopicListInFlightHeapMemSizePermitsAcquireTimeoutMillis=25000
            maxTopicListInFlightHeapMemSizePermitsAcquireQueueSize=10000
            maxTopicListInFlightDirectMemSizePermitsAcquireTimeoutMillis=25000
            maxTopicListInFlightDirectMemSizePermitsAcquireQueueSize=10000
            jvmGCMetricsLoggerClassName= narExtractionDirectory= entryFiltersDirectory*=
            allowOverrideEntryFilters*=false dispatchThrottlingForFilteredEntriesEnabled=false
            brokerInterceptorsDirectory=./interceptors disableBrokerInterceptors=true|false
            isRunningStandalone=true|false""",
        "tunes the HTTP server of the original": """
            disableHttpDebugMethods=false|true httpRequestsMaxPerSecond=100.0
            httpServerThreadPoolQueueSize=8192 httpServerAcceptQueueSize=8192
            maxConcurrentHttpRequests=1024 httpRequestsFailOnUnknownPropertiesEnabled*=false
            webServiceTrustXForwardedFor=false webServiceLogDetailedAddresses=
            statusFilePath=/usr/local/apache/htdocs webSocketNumIoThreads=8
            webSocketNumServiceThreads= webSocketConnectionsPerBroker=8
            webSocketPulsarClientMemoryLimitInMB=0 webSocketSessionIdleTimeoutMillis=300000
            webSocketMaxTextFrameSize=1048576""",
        "tunes the metadata store, which is one local file here": """
            metadataStoreConfigPath= metadataSyncEventTopic*= configurationMetadataSyncEventTopic*=
            metadataStoreOperationTimeoutSeconds=30 metadataStoreCacheExpirySeconds=300
            metadataStoreBatchingEnabled=true metadataStoreBatchingMaxDelayMillis=5
            metadataStoreBatchingMaxOperations=1000 metadataStoreBatchingMaxSizeKb=128
            metadataStoreSerDesThreads=1 zookeeperSessionExpiredPolicy=reconnect
            zooKeeperSessionTimeoutMillis=-1 zooKeeperOperationTimeoutSeconds=-1
            zooKeeperCacheExpirySeconds=-1""",
        "tunes BookKeeper, and this broker writes to its own disk": """
            bookkeeperMetadataServiceUri= bookkeeperClientAuthenticationPlugin=
            bookkeeperClientAuthenticationParametersName= bookkeeperClientAuthenticationParameters=
            bookkeeperClientTimeoutInSeconds=30 bookkeeperClientNumWorkerThreads=
            bookkeeperClientNumIoThreads= bookkeeperClientSeparatedIoThreadsEnabled=false
            bookkeeperClientSpeculativeReadTimeoutInMillis=0 bookkeeperNumberOfChannelsPerBookie=16
            bookkeeperUseV2WireProtocol*=true bookkeeperClientHealthCheckEnabled=true
            bookkeeperClientHealthCheckIntervalSeconds=60
            bookkeeperClientHealthCheckErrorThresholdPerInterval=5
            bookkeeperClientHealthCheckQuarantineTimeInSeconds=1800
            bookkeeperClientQuarantineRatio=1.0 bookkeeperClientGetBookieInfoIntervalSeconds=86400
            bookkeeperClientGetBookieInfoRetryIntervalSeconds=60
            bookkeeperClientRackawarePolicyEnabled=true
            bookkeeperClientRegionawarePolicyEnabled=false
            bookkeeperClientMinNumRacksPerWriteQuorum=2|1
            bookkeeperClientEnforceMinNumRacksPerWriteQuorum=false
            bookkeeperClientReorderReadSequenceEnabled=true|false bookkeeperClientIsolationGroups=
            bookkeeperClientSecondaryIsolationGroups=
            bookkeeperClientMinAvailableBookiesInIsolationGroups= bookkeeperEnableStickyReads=true
            bookkeeperTLSProviderFactoryClass=TLSContextFactory
            bookkeeperTLSClientAuthentication=false bookkeeperTLSKeyFileType=PEM
            bookkeeperTLSTrustCertTypes=PEM bookkeeperTLSKeyStorePasswordPath=
            bookkeeperTLSTrustStorePasswordPath= bookkeeperTLSKeyFilePath=
            bookkeeperTLSCertificateFilePath= bookkeeperTLSTrustCertsFilePath=
            bookkeeperTlsCertFilesRefreshDurationSeconds=300
            bookkeeper_tlsHostnameVerificationEnabled=false bookkeeper_opportunisticStriping=false
            bookkeeperDiskWeightBasedPlacementEnabled=false bookkeeperExplicitLacIntervalInMills=0
            bookkeeperClientExposeStatsToPrometheus=false
            bookkeeperClientLimitStatsLogging=true|false enableRunBookieTogether=false
            enableRunBookieAutoRecoveryTogether=false strictBookieAffinityEnabled=false bookieId=
            ledgerStorageClass=DbLedgerStorage nettyMaxFrameSizeBytes=5253120
            dbStorage_writeCacheMaxSizeMb= dbStorage_readAheadCacheMaxSizeMb=
            dbStorage_readAheadCacheBatchSize=1000 dbStorage_rocksDB_blockCacheSize=
            dbStorage_rocksDB_writeBufferSizeMB=4 dbStorage_rocksDB_sstSizeInMB=4
            dbStorage_rocksDB_blockSize=4096 dbStorage_rocksDB_bloomFilterBitsPerKey=10
            dbStorage_rocksDB_numLevels=-1 dbStorage_rocksDB_numFilesInLevel0=4
            dbStorage_rocksDB_maxSizeInLevel1MB=256 flushInterval=60000 journalMaxGroupWaitMSec=1
            diskUsageThreshold=0.99 diskUsageWarnThreshold=0.99 allowLoopback=true gcWaitTime=300000
            """,
        "is settled by magnetarDurability": """
            journalSyncData=true|false""",
        "tunes the original's ledgers and cursors; here every acknowledgement is kept, and the "
        "cache is bounded by its size alone": """
            managedLedgerDefaultEnsembleSize=2|1 managedLedgerDefaultWriteQuorum=2|1
            managedLedgerDefaultAckQuorum=2|1 managedLedgerCursorPositionFlushSeconds=60
            managedLedgerStatsPeriodSeconds=60 managedLedgerDigestType=CRC32C
            managedLedgerNumSchedulerThreads=4 managedLedgerCacheCopyEntries=false
            managedLedgerCacheEvictionWatermark*=0.9 managedLedgerCacheEvictionIntervalMs=10
            managedLedgerCacheEvictionFrequency=0|100.0
            managedLedgerCacheEvictionTimeThresholdMillis*=1000
            managedLedgerCursorBackloggedThreshold=1000
            managedLedgerMinimumBacklogCursorsForCaching*=0
            managedLedgerMinimumBacklogEntriesForCaching*=1000
            managedLedgerMaxBacklogBetweenCursorsForCaching*=1000
            managedLedgerDefaultMarkDeleteRateLimit=1.0|0.1
            managedLedgerInactiveLedgerRolloverTimeSeconds*=0
            managedLedgerInactiveOffloadedLedgerEvictionTimeSeconds*=600
            managedLedgerCursorMaxEntriesPerLedger=50000
            managedLedgerCursorRolloverTimeInSeconds=14400
            managedLedgerMaxUnackedRangesToPersist=10000
            managedLedgerMaxBatchDeletedIndexToPersist=10000
            managedLedgerPersistIndividualAckAsLongArray=false|true
            managedLedgerUnackedRangesOpenCacheSetEnabled=true
            managedLedgerMaxUnackedRangesToPersistInMetadataStore=1000
            managedLedgerMaxUnackedRangesToPersistInZooKeeper=-1
            managedCursorInfoCompressionType=NONE managedCursorInfoCompressionThresholdInBytes=16384
            managedLedgerInfoCompressionType=NONE managedLedgerInfoCompressionThresholdInBytes=16384
            lazyCursorRecovery=false managedLedgerMetadataOperationsTimeoutSeconds=60
            managedLedgerReadEntryTimeoutSeconds=0 managedLedgerAddEntryTimeoutSeconds=0
            managedLedgerPrometheusStatsLatencyRolloverSeconds=60
            managedLedgerTraceTaskExecution*=true managedLedgerNewEntriesCheckDelayInMillis=10
            dispatcherPauseOnAckStatePersistentEnabled*=false
            persistentUnackedRangesWithMultipleEntriesEnabled=false
            persistentUnackedRangesWithPerLedgerEntryEnabled=false
            persistentUnackedRangesMaxEntrySize=5242880
            managedLedgerCacheEvictionExtendTTLOfEntriesWithRemainingExpectedReadsMaxTimes*=5
            managedLedgerCacheEvictionExtendTTLOfRecentlyAccessed*=true
            managedLedgerCursorResetLedgerCloseTimestampMaxClockSkewMillis*=60000
            cacheEvictionByExpectedReadCount=true cacheEvictionByMarkDeletedPosition=false
            managedLedgerContinueCachingAddedEntriesAfterLastActiveCursorLeavesMillis=
            managedLedgerDeleteMaxConcurrentRequests=1000 managedLedgerMaxEnsembleSize=5
            managedLedgerMaxWriteQuorum=5 managedLedgerMaxAckQuorum=5
            managedLedgerMaxReadsInFlightPermitsAcquireQueueSize=50000
            managedLedgerMaxReadsInFlightPermitsAcquireTimeoutMillis=60000
            managedLedgerStorageClassName=ManagedLedgerClientFactory""",
        "tunes the original's offloaders; here they are built in, transfers and reads choose their "
        "own sizes, all loaded topics are checked every retentionCheckIntervalInSeconds, and "
        "buckets must exist": """
            offloadersDirectory=./offloaders triggerOffloadOnTopicLoad=false
            managedLedgerOffloadReadThreads=2 managedLedgerOffloadPrefetchRounds=1
            s3ManagedLedgerOffloadMaxBlockSizeInBytes=67108864
            s3ManagedLedgerOffloadReadBufferSizeInBytes=1048576
            gcsManagedLedgerOffloadRegion=
            gcsManagedLedgerOffloadMaxBlockSizeInBytes=134217728
            gcsManagedLedgerOffloadReadBufferSizeInBytes=1048576
            fileSystemProfilePath=conf/filesystem_offload_core_site.xml""",
        "tunes how brokers share bundles otherwise than here: workers share them by the processor "
        "time that each uses": f"""
            failureDomainsEnabled*=false preferLaterVersions*=false
            loadBalancerReportUpdateThresholdPercentage*=10
            loadBalancerReportUpdateMinIntervalMillis*=5000
            loadBalancerReportUpdateMaxIntervalMinutes*=15
            loadBalancerHostUsageCheckIntervalMinutes*=1 loadBalancerBrokerMaxTopics*=50000
            loadBalancerBrokerOverloadedThresholdPercentage*=85
            loadBalancerResourceQuotaUpdateIntervalMinutes=15
            loadBalancerAutoBundleSplitEnabled*=true loadBalancerAutoUnloadSplitBundlesEnabled*=true
            loadBalancerNamespaceBundleMaxTopics*=1000 loadBalancerNamespaceBundleMaxSessions*=1000
            loadBalancerNamespaceBundleMaxMsgRate*=30000
            loadBalancerNamespaceBundleMaxBandwidthMbytes*=100
            loadBalancerNamespaceMaximumBundles*=128 loadBalancerOverrideBrokerNicSpeedGbps=
            loadManagerClassName*=ModularLoadManagerImpl|NoopLoadManager
            topicBundleAssignmentStrategy=ConsistentHashingTopicBundleAssigner
            supportedNamespaceBundleSplitAlgorithms*={_BUNDLE_SPLITS}
            defaultNamespaceBundleSplitAlgorithm*=range_equally_divide
            loadBalancerLoadSheddingStrategy*=ThresholdShedder lowerBoundarySheddingEnabled=false
            loadBalancerLoadPlacementStrategy=LeastLongTermMessageRate
            loadBalancerAverageResourceUsageDifferenceThresholdPercentage*=10
            loadBalancerMsgRateDifferenceShedderThreshold*=50
            loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold*=4
            loadBalancerHistoryResourcePercentage*=0.9 loadBalancerBandwidthInResourceWeight*=1.0
            loadBalancerBandwidthOutResourceWeight*=1.0 loadBalancerBandwithInResourceWeight*=1.0
            loadBalancerBandwithOutResourceWeight*=1.0 loadBalancerCPUResourceWeight*=1.0
            loadBalancerMemoryResourceWeight*=0|1.0 loadBalancerDirectMemoryResourceWeight*=0|1.0
            loadBalancerBundleUnloadMinThroughputThreshold*=10
            namespaceBundleUnloadingTimeoutMs*=60000 loadBalancerAvgShedderLowThreshold*=15
            loadBalancerAvgShedderHighThreshold*=40 loadBalancerAvgShedderHitCountLowThreshold*=8
            loadBalancerAvgShedderHitCountHighThreshold*=2 maxUnloadPercentage*=0.2
            loadBalancerDebugModeEnabled*=false loadBalancerBrokerLoadTargetStd*=0.25
            loadBalancerSheddingConditionHitCountThreshold*=3 loadBalancerTransferEnabled*=true
            loadBalancerMaxNumberOfBrokerSheddingPerCycle*=3 loadBalanceSheddingDelayInSeconds*=180
            loadBalancerBrokerLoadDataTTLInSeconds*=1800
            loadBalancerMaxNumberOfBundlesInBundleLoadReport*=10 loadBalancerSplitIntervalMinutes=1
            loadBalancerMaxNumberOfBundlesToSplitPerCycle*=10
            loadBalancerNamespaceBundleSplitConditionHitCountThreshold*=3
            loadBalancerServiceUnitStateTombstoneDelayTimeInSeconds=3600
            loadManagerServiceUnitStateTableViewClassName=ServiceUnitStateTableViewImpl
            loadBalancerServiceUnitTableViewSyncer*=None
            loadBalancerServiceUnitStateMaxConcurrentOverrides*=64
            flowOrQpsDifferenceThresholdPercentage*=10
            loadBalancerDistributeBundlesEvenlyEnabled*=true
            loadBalancerSheddingBundlesWithPoliciesEnabled*=false
            loadBalancerSheddingExcludedNamespaces*= maxUnloadBundleNumPerShedding*=-1
            minUnloadMessage*=1000 minUnloadMessageThroughput*=1048576
            loadBalancerBrokerComfortLoadLevelPercentage=65
            loadBalancerBrokerUnderloadedThresholdPercentage=50
            loadBalancerInFlightServiceUnitStateWaitingTimeInMillis=30000
            loadBalancerMultiPhaseBundleUnload=true loadBalancerOverrideBrokerNics=
            loadBalancerPlacementStrategy=leastLoadedServer
            loadBalancerServiceUnitStateMonitorIntervalInSeconds=60""",
        "tunes replication between clusters, which is not built yet": """
            replicationMetricsEnabled=true replicationConnectionsPerBroker=16
            replicationProducerQueueSize*=1000 replicatorPrefix=pulsar.repl
            replicationPolicyCheckDurationSeconds=600 replicationTlsEnabled=false
            createTopicToRemoteClusterForReplication=true enableReplicatedSubscriptions=true
            replicatedSubscriptionsSnapshotFrequencyMillis=1000
            replicatedSubscriptionsSnapshotTimeoutSeconds=30
            replicatedSubscriptionsSnapshotMaxCachedPerSubscription=30
            dispatchThrottlingRatePerReplicatorInMsg*=0 dispatchThrottlingRatePerReplicatorInByte*=0
            brokerReplicationInactiveThresholdSeconds*=86400 replicationStartAt*=latest""",
        "tunes deduplication otherwise than here: brokerDeduplicationSnapshotIntervalSeconds is "
        "kept to the second": """
            brokerDeduplicationSnapshotFrequencyInSeconds=120""",
        "tunes the original's index of delayed messages; there is another one here": """
            delayedDeliveryTrackerFactoryClassName=InMemoryDelayedDeliveryTrackerFactory
            delayedDeliveryMinIndexCountPerBucket=50000
            delayedDeliveryMaxTimeStepPerBucketSnapshotSegmentSeconds=300
            delayedDeliveryMaxIndexesPerBucketSnapshotSegment=5000 delayedDeliveryMaxNumBuckets=-1
            delayedDeliveryFixedDelayDetectionLookahead=50000""",
        "limits how many delayed messages the original's index keeps in memory; the index here "
        "is on disk and keeps a bounded part of it in memory": """
            maxNumDelayedDeliveryTrackerMemoryEntries=100000""",
        "tunes how the original stores and ends transactions; this broker stores their state with "
        "the cursors of topics, and keeps its own pace": """
            transactionMetadataStoreProviderClassName=MLTransactionMetadataStoreProvider
            transactionBufferSnapshotMaxTransactionCount=1000
            transactionBufferSnapshotMinTimeInMillis=5000
            transactionBufferSegmentedSnapshotEnabled=false
            transactionBufferSnapshotSegmentSize=262144
            transactionBufferClientMaxConcurrentRequests=1000
            transactionPendingAckLogIndexMinLag=500
            transactionBufferClientOperationTimeoutInMills=3000
            transactionLogBatchedWriteEnabled*=false transactionLogBatchedWriteMaxRecords=512
            transactionLogBatchedWriteMaxSize=4194304 transactionLogBatchedWriteMaxDelayInMillis=1
            transactionPendingAckBatchedWriteEnabled*=false
            transactionPendingAckBatchedWriteMaxRecords=512
            transactionPendingAckBatchedWriteMaxSize=4194304
            transactionPendingAckBatchedWriteMaxDelayInMillis=1""",
        "tunes throttling, clean-up and compaction, which keep their own pace here": """
            brokerServicePurgeInactiveFrequencyInSeconds=60 additionalSystemCursorNames=
            maxMessageSizeCheckIntervalInSeconds=60 topicPublisherThrottlingTickTimeMillis*=10|2
            brokerPublisherThrottlingTickTimeMillis*=50
            dispatchRateLimiterFactoryClassName=DispatchRateLimiterFactoryAsyncTokenBucket
            brokerServiceCompactionPhaseOneLoopTimeInSeconds=30
            compactionServiceFactoryClassName=PulsarCompactionServiceFactory""",
        "tunes the original's dispatchers; ours bound their work in their own way": """
            activeConsumerFailoverConsistentHashing=false subscriptionRedeliveryTrackerEnabled*=true
            unblockStuckSubscriptionEnabled*=false subscriptionBacklogScanMaxTimeMs=120000
            subscriptionBacklogScanMaxEntries=10000 dispatcherMinReadBatchSize*=1
            dispatcherReadFailureBackoffInitialTimeInMs*=15000
            dispatcherReadFailureBackoffMaxTimeInMs*=60000
            dispatcherReadFailureBackoffMandatoryStopTimeInMs*=0
            dispatcherRetryBackoffInitialTimeInMs=1 dispatcherRetryBackoffMaxTimeInMs=10
            topicFencingTimeoutSeconds=0 topicLoadTimeoutSeconds=60
            preciseDispatcherFlowControl*=false maxConcurrentNonPersistentMessagePerConnection=1000
            topicsPatternRegexImplementation=RE2J|RE2J_WITH_JDK_FALLBACK
            dispatcherEntryFilterRescheduledMessageDelay*=1000 keySharedUnblockingIntervalMs*=10
            subscriptionKeySharedUseClassicPersistentImplementation*=false
            subscriptionSharedUseClassicPersistentImplementation*=false""",
        "tunes schemas and topic policies as the original keeps them": f"""
            systemTopicEnabled=true topicLevelPoliciesEnabled=true
            topicPoliciesCacheInitTimeoutSeconds*=60
            schemaRegistryCompatibilityCheckers={_SCHEMA_CHECKERS}
            schemaRegistryStorageClassName=BookkeeperSchemaStorageFactory
            clientLibraryVersionCheckAllowUnversioned=true|false""",
        "chooses metrics and statistics that are always or never there": """
            metricsBufferResponse=false exposeManagedLedgerMetricsInPrometheus=true
            exposeManagedCursorMetricsInPrometheus=false metricsServletTimeoutMs=30000
            exposeBundlesMetricsInPrometheus*=false exposePublisherStats=true
            exposeSubscriptionBacklogAgeInPrometheus=false
            exposeSubscriptionBacklogSizeInPrometheus=false
            exposePreciseBacklogInPrometheus=false|true statsUpdateInitialDelayInSecs=60
            healthCheckMetricsUpdateTimeInSeconds=-1 aggregatePublisherStatsByProducerName=false""",
        "tunes resource groups, whose limits are not enforced here": """
            resourceUsageTransportClassName= resourceUsageTransportPublishIntervalInSecs*=60""",
        "tunes functions and packages, which are not built yet": """
            functionsWorkerEnablePackageManagement=false
            packagesManagementStorageProvider=BookKeeperPackagesStorageProvider
            packagesReplicas=1 packagesManagementLedgerRootPath=/ledgers""",
    }
)
"""Keys that have no effect here: one warning names all that are set to unusual values."""

UNSUPPORTED = {**UNSAFE, **NOT_BUILT, **COMPATIBLE}
"""All keys without effect here, by name."""
