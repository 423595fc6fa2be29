{{- define "tidewright.image" -}}
{{ include "tidewright.imageOf" (list . "") }}
{{- end -}}

{{- /* Of the root and a tag: the image, of that tag, or of that of all where there is none. */ -}}
{{- define "tidewright.imageOf" -}}
{{- $root := first . -}}
{{ printf "%s:%s" $root.Values.image.repository (last . | default $root.Values.image.tag | default $root.Chart.AppVersion) | quote }}
{{- end -}}

{{- /* Of the root and names of services: the namespaces that all of them are narrowed to, as JSON; [] when one is not. */ -}}
{{- define "tidewright.namespaces" -}}
{{- $root := first . -}}
{{- $found := list -}}
{{- $open := false -}}
{{- range rest . -}}
  {{- $own := index $root.Values.namespaces . -}}
  {{- if $own }}{{ $found = concat $found $own }}{{ else }}{{ $open = true }}{{ end -}}
{{- end -}}
{{- if $open }}[]{{ else }}{{ $found | uniq | sortAlpha | toJson }}{{ end -}}
{{- end -}}

{{- /* What a service has where nothing is chosen, as `values.yaml` says it: a template cannot read that. */ -}}
{{- define "tidewright.unchosen" -}}
replicas: 2
tag: ""
resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 1Gi}}
args: []
env: []
volumes: []
volumeMounts: []
podAnnotations: {}
serviceAccountAnnotations: {}
nodeSelector: {}
tolerations: []
affinity: {}
{{- end -}}

{{- /* Of the root and a service: its replicas. Where an autoscaler says how many, those that there are: Helm would take them back at every upgrade. */ -}}
{{- define "tidewright.replicas" -}}
{{- $root := first . -}}
{{- $name := last . -}}
{{- $scaling := index $root.Values.scaling $name -}}
{{- if not $scaling }}{{ (index $root.Values.services $name).replicas -}}
{{- else -}}
  {{- with lookup "apps/v1" "Deployment" $root.Release.Namespace $name -}}
    {{- max (.spec.replicas | default 1) ($scaling.min | default 2) -}}
  {{- end -}}
{{- end -}}
{{- end -}}
