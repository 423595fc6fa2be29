"""The fields of a pod as data: names and types, for strategic merge and for reading back.

    types()   type name to its fields, each with its code; taken from the published API models (core/v1, 1.36)

The codes: `s` text, `i` integer, `b` boolean, `n` number, `t` time, `q` quantity, `o` integer or text,
`x` anything; `[c]` a list of c, `{c}` a map of text to c; anything else names a type. How lists merge is in
`kube.mergekeys`.
"""

from __future__ import annotations

from functools import lru_cache

_TEXT = """
AWSElasticBlockStoreVolumeSource
    fsType:s partition:i readOnly:b volumeID:s
Affinity
    nodeAffinity:NodeAffinity podAffinity:PodAffinity podAntiAffinity:PodAntiAffinity
AppArmorProfile
    localhostProfile:s type:s
AzureDiskVolumeSource
    cachingMode:s diskName:s diskURI:s fsType:s kind:s readOnly:b
AzureFileVolumeSource
    readOnly:b secretName:s shareName:s
CSIVolumeSource
    driver:s fsType:s nodePublishSecretRef:LocalObjectReference readOnly:b volumeAttributes:{s}
Capabilities
    add:[s] drop:[s]
CephFSVolumeSource
    monitors:[s] path:s readOnly:b secretFile:s secretRef:LocalObjectReference user:s
CinderVolumeSource
    fsType:s readOnly:b secretRef:LocalObjectReference volumeID:s
ClusterTrustBundleProjection
    labelSelector:LabelSelector name:s optional:b path:s signerName:s
ConfigMapEnvSource
    name:s optional:b
ConfigMapKeySelector
    key:s name:s optional:b
ConfigMapProjection
    items:[KeyToPath] name:s optional:b
ConfigMapVolumeSource
    defaultMode:i items:[KeyToPath] name:s optional:b
Container
    args:[s] command:[s] env:[EnvVar] envFrom:[EnvFromSource] image:s imagePullPolicy:s
    lifecycle:Lifecycle livenessProbe:Probe name:s ports:[ContainerPort]
    readinessProbe:Probe resizePolicy:[ContainerResizePolicy] resources:ResourceRequirements
    restartPolicy:s restartPolicyRules:[ContainerRestartRule] securityContext:SecurityContext
    startupProbe:Probe stdin:b stdinOnce:b terminationMessagePath:s terminationMessagePolicy:s
    tty:b volumeDevices:[VolumeDevice] volumeMounts:[VolumeMount]
    workingDir:s
ContainerPort
    containerPort:i hostIP:s hostPort:i name:s protocol:s
ContainerResizePolicy
    resourceName:s restartPolicy:s
ContainerRestartRule
    action:s exitCodes:ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes
    operator:s values:[i]
CoreV1ResourceClaim
    name:s request:s
DownwardAPIProjection
    items:[DownwardAPIVolumeFile]
DownwardAPIVolumeFile
    fieldRef:ObjectFieldSelector mode:i path:s resourceFieldRef:ResourceFieldSelector
DownwardAPIVolumeSource
    defaultMode:i items:[DownwardAPIVolumeFile]
EmptyDirVolumeSource
    medium:s sizeLimit:q
EnvFromSource
    configMapRef:ConfigMapEnvSource prefix:s secretRef:SecretEnvSource
EnvVar
    name:s value:s valueFrom:EnvVarSource
EnvVarSource
    configMapKeyRef:ConfigMapKeySelector fieldRef:ObjectFieldSelector fileKeyRef:FileKeySelector
    resourceFieldRef:ResourceFieldSelector secretKeyRef:SecretKeySelector
EphemeralContainer
    args:[s] command:[s] env:[EnvVar] envFrom:[EnvFromSource] image:s imagePullPolicy:s
    lifecycle:Lifecycle livenessProbe:Probe name:s ports:[ContainerPort]
    readinessProbe:Probe resizePolicy:[ContainerResizePolicy] resources:ResourceRequirements
    restartPolicy:s restartPolicyRules:[ContainerRestartRule] securityContext:SecurityContext
    startupProbe:Probe stdin:b stdinOnce:b targetContainerName:s terminationMessagePath:s
    terminationMessagePolicy:s tty:b volumeDevices:[VolumeDevice]
    volumeMounts:[VolumeMount] workingDir:s
EphemeralVolumeSource
    volumeClaimTemplate:PersistentVolumeClaimTemplate
ExecAction
    command:[s]
FCVolumeSource
    fsType:s lun:i readOnly:b targetWWNs:[s] wwids:[s]
FileKeySelector
    key:s optional:b path:s volumeName:s
FlexVolumeSource
    driver:s fsType:s options:{s} readOnly:b secretRef:LocalObjectReference
FlockerVolumeSource
    datasetName:s datasetUUID:s
GCEPersistentDiskVolumeSource
    fsType:s partition:i pdName:s readOnly:b
GRPCAction
    port:i service:s
GitRepoVolumeSource
    directory:s repository:s revision:s
GlusterfsVolumeSource
    endpoints:s path:s readOnly:b
HTTPGetAction
    host:s httpHeaders:[HTTPHeader] path:s port:o scheme:s
HTTPHeader
    name:s value:s
HostAlias
    hostnames:[s] ip:s
HostPathVolumeSource
    path:s type:s
ISCSIVolumeSource
    chapAuthDiscovery:b chapAuthSession:b fsType:s initiatorName:s iqn:s iscsiInterface:s lun:i
    portals:[s] readOnly:b secretRef:LocalObjectReference targetPortal:s
ImageVolumeSource
    pullPolicy:s reference:s
KeyToPath
    key:s mode:i path:s
LabelSelector
    matchExpressions:[LabelSelectorRequirement] matchLabels:{s}
LabelSelectorRequirement
    key:s operator:s values:[s]
Lifecycle
    postStart:LifecycleHandler preStop:LifecycleHandler stopSignal:s
LifecycleHandler
    exec:ExecAction httpGet:HTTPGetAction sleep:SleepAction tcpSocket:TCPSocketAction
LocalObjectReference
    name:s
NFSVolumeSource
    path:s readOnly:b server:s
NodeAffinity
    preferredDuringSchedulingIgnoredDuringExecution:[PreferredSchedulingTerm]
    requiredDuringSchedulingIgnoredDuringExecution:NodeSelector
NodeSelector
    nodeSelectorTerms:[NodeSelectorTerm]
NodeSelectorRequirement
    key:s operator:s values:[s]
NodeSelectorTerm
    matchExpressions:[NodeSelectorRequirement] matchFields:[NodeSelectorRequirement]
ObjectFieldSelector
    apiVersion:s fieldPath:s
ObjectMeta
    annotations:{s} creationTimestamp:t deletionGracePeriodSeconds:i deletionTimestamp:t
    finalizers:[s] generateName:s generation:i labels:{s} managedFields:x name:s namespace:s
    ownerReferences:[OwnerReference] resourceVersion:s selfLink:s uid:s
OwnerReference
    apiVersion:s blockOwnerDeletion:b controller:b kind:s name:s uid:s
PersistentVolumeClaimSpec
    accessModes:[s] dataSource:TypedLocalObjectReference dataSourceRef:TypedObjectReference
    resources:VolumeResourceRequirements selector:LabelSelector storageClassName:s
    volumeAttributesClassName:s volumeMode:s volumeName:s
PersistentVolumeClaimTemplate
    metadata:ObjectMeta spec:PersistentVolumeClaimSpec
PersistentVolumeClaimVolumeSource
    claimName:s readOnly:b
PhotonPersistentDiskVolumeSource
    fsType:s pdID:s
Pod
    apiVersion:s kind:s metadata:ObjectMeta spec:PodSpec status:x
PodAffinity
    preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodAffinityTerm]
    requiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm]
PodAffinityTerm
    labelSelector:LabelSelector matchLabelKeys:[s] mismatchLabelKeys:[s]
    namespaceSelector:LabelSelector namespaces:[s] topologyKey:s
PodAntiAffinity
    preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodAffinityTerm]
    requiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm]
PodCertificateProjection
    certificateChainPath:s credentialBundlePath:s keyPath:s keyType:s maxExpirationSeconds:i
    signerName:s userAnnotations:{s}
PodDNSConfig
    nameservers:[s] options:[PodDNSConfigOption] searches:[s]
PodDNSConfigOption
    name:s value:s
PodOS
    name:s
PodReadinessGate
    conditionType:s
PodResourceClaim
    name:s resourceClaimName:s resourceClaimTemplateName:s
PodSchedulingGate
    name:s
PodSchedulingGroup
    podGroupName:s
PodSecurityContext
    appArmorProfile:AppArmorProfile fsGroup:i fsGroupChangePolicy:s runAsGroup:i runAsNonRoot:b
    runAsUser:i seLinuxChangePolicy:s seLinuxOptions:SELinuxOptions
    seccompProfile:SeccompProfile supplementalGroups:[i] supplementalGroupsPolicy:s
    sysctls:[Sysctl] windowsOptions:WindowsSecurityContextOptions
PodSpec
    activeDeadlineSeconds:i affinity:Affinity automountServiceAccountToken:b
    containers:[Container] dnsConfig:PodDNSConfig dnsPolicy:s enableServiceLinks:b
    ephemeralContainers:[EphemeralContainer] hostAliases:[HostAlias] hostIPC:b
    hostNetwork:b hostPID:b hostUsers:b hostname:s hostnameOverride:s
    imagePullSecrets:[LocalObjectReference] initContainers:[Container] nodeName:s
    nodeSelector:{s} os:PodOS overhead:{q} preemptionPolicy:s priority:i priorityClassName:s
    readinessGates:[PodReadinessGate] resourceClaims:[PodResourceClaim]
    resources:ResourceRequirements restartPolicy:s runtimeClassName:s schedulerName:s
    schedulingGates:[PodSchedulingGate] schedulingGroup:PodSchedulingGroup
    securityContext:PodSecurityContext serviceAccount:s serviceAccountName:s setHostnameAsFQDN:b
    shareProcessNamespace:b subdomain:s terminationGracePeriodSeconds:i tolerations:[Toleration]
    topologySpreadConstraints:[TopologySpreadConstraint] volumes:[Volume]
PortworxVolumeSource
    fsType:s readOnly:b volumeID:s
PreferredSchedulingTerm
    preference:NodeSelectorTerm weight:i
Probe
    exec:ExecAction failureThreshold:i grpc:GRPCAction httpGet:HTTPGetAction
    initialDelaySeconds:i periodSeconds:i successThreshold:i tcpSocket:TCPSocketAction
    terminationGracePeriodSeconds:i timeoutSeconds:i
ProjectedVolumeSource
    defaultMode:i sources:[VolumeProjection]
QuobyteVolumeSource
    group:s readOnly:b registry:s tenant:s user:s volume:s
RBDVolumeSource
    fsType:s image:s keyring:s monitors:[s] pool:s readOnly:b secretRef:LocalObjectReference
    user:s
ResourceFieldSelector
    containerName:s divisor:q resource:s
ResourceRequirements
    claims:[CoreV1ResourceClaim] limits:{q} requests:{q}
SELinuxOptions
    level:s role:s type:s user:s
ScaleIOVolumeSource
    fsType:s gateway:s protectionDomain:s readOnly:b secretRef:LocalObjectReference sslEnabled:b
    storageMode:s storagePool:s system:s volumeName:s
SeccompProfile
    localhostProfile:s type:s
SecretEnvSource
    name:s optional:b
SecretKeySelector
    key:s name:s optional:b
SecretProjection
    items:[KeyToPath] name:s optional:b
SecretVolumeSource
    defaultMode:i items:[KeyToPath] optional:b secretName:s
SecurityContext
    allowPrivilegeEscalation:b appArmorProfile:AppArmorProfile capabilities:Capabilities
    privileged:b procMount:s readOnlyRootFilesystem:b runAsGroup:i runAsNonRoot:b runAsUser:i
    seLinuxOptions:SELinuxOptions seccompProfile:SeccompProfile
    windowsOptions:WindowsSecurityContextOptions
ServiceAccountTokenProjection
    audience:s expirationSeconds:i path:s
SleepAction
    seconds:i
StorageOSVolumeSource
    fsType:s readOnly:b secretRef:LocalObjectReference volumeName:s volumeNamespace:s
Sysctl
    name:s value:s
TCPSocketAction
    host:s port:o
Toleration
    effect:s key:s operator:s tolerationSeconds:i value:s
TopologySpreadConstraint
    labelSelector:LabelSelector matchLabelKeys:[s] maxSkew:i minDomains:i nodeAffinityPolicy:s
    nodeTaintsPolicy:s topologyKey:s whenUnsatisfiable:s
TypedLocalObjectReference
    apiGroup:s kind:s name:s
TypedObjectReference
    apiGroup:s kind:s name:s namespace:s
Volume
    awsElasticBlockStore:AWSElasticBlockStoreVolumeSource azureDisk:AzureDiskVolumeSource
    azureFile:AzureFileVolumeSource cephfs:CephFSVolumeSource cinder:CinderVolumeSource
    configMap:ConfigMapVolumeSource csi:CSIVolumeSource downwardAPI:DownwardAPIVolumeSource
    emptyDir:EmptyDirVolumeSource ephemeral:EphemeralVolumeSource fc:FCVolumeSource
    flexVolume:FlexVolumeSource flocker:FlockerVolumeSource
    gcePersistentDisk:GCEPersistentDiskVolumeSource gitRepo:GitRepoVolumeSource
    glusterfs:GlusterfsVolumeSource hostPath:HostPathVolumeSource image:ImageVolumeSource
    iscsi:ISCSIVolumeSource name:s nfs:NFSVolumeSource
    persistentVolumeClaim:PersistentVolumeClaimVolumeSource
    photonPersistentDisk:PhotonPersistentDiskVolumeSource portworxVolume:PortworxVolumeSource
    projected:ProjectedVolumeSource quobyte:QuobyteVolumeSource rbd:RBDVolumeSource
    scaleIO:ScaleIOVolumeSource secret:SecretVolumeSource storageos:StorageOSVolumeSource
    vsphereVolume:VsphereVirtualDiskVolumeSource
VolumeDevice
    devicePath:s name:s
VolumeMount
    mountPath:s mountPropagation:s name:s readOnly:b recursiveReadOnly:s subPath:s subPathExpr:s
VolumeProjection
    clusterTrustBundle:ClusterTrustBundleProjection configMap:ConfigMapProjection
    downwardAPI:DownwardAPIProjection podCertificate:PodCertificateProjection
    secret:SecretProjection serviceAccountToken:ServiceAccountTokenProjection
VolumeResourceRequirements
    limits:{q} requests:{q}
VsphereVirtualDiskVolumeSource
    fsType:s storagePolicyID:s storagePolicyName:s volumePath:s
WeightedPodAffinityTerm
    podAffinityTerm:PodAffinityTerm weight:i
WindowsSecurityContextOptions
    gmsaCredentialSpec:s gmsaCredentialSpecName:s hostProcess:b runAsUserName:s
"""


def _read(text: str) -> dict[str, dict[str, str]]:
    types: dict[str, dict[str, str]] = {}
    fields: dict[str, str] = {}
    for line in text.strip().splitlines():
        if not line.startswith(" "):
            fields = types.setdefault(line, {})
            continue
        for word in line.split():
            name, _, code = word.partition(":")
            fields[name] = code
    return types


@lru_cache(maxsize=1)
def types() -> dict[str, dict[str, str]]:
    """All types, read at first use."""
    return _read(_TEXT)
