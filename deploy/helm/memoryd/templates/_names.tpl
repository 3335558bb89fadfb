{{- define "memoryd.labels" -}}
{{ include "memoryd.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "memoryd.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* server or sidecar. A release of an earlier chart sets agent.image and no mode. */ -}}
{{- define "memoryd.mode" -}}
{{- if .Values.mode }}{{ .Values.mode }}{{ else if (.Values.agent | default dict).image }}sidecar{{ else }}server{{ end }}
{{- end }}

{{- define "memoryd.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end }}
{{- end }}

{{- define "memoryd.claim" -}}
{{ default (printf "%s-memory" .Release.Name) .Values.store.sqlite.existingClaim }}
{{- end }}

{{- /* Whether to make a resource of Prometheus Operator's: call with root, values and kind. The values are
       missing in an upgrade with --reuse-values from a chart without them. */ -}}
{{- define "memoryd.makesMonitoring" -}}
{{- $enabled := get (.values | default dict) "enabled" -}}
{{- if kindIs "bool" $enabled }}{{ ternary "true" "" $enabled }}
{{- else if .root.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" .kind) }}true{{ end }}
{{- end }}
