{{- /* What every pod with memoryd in it has. */ -}}
{{- define "memoryd.podBasics" -}}
automountServiceAccountToken: false
# A Service named memoryd would otherwise bring variables that look like settings.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  fsGroup: 65532  # The volume is memoryd's to write, and the Secrets its to read.
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* The fields of memoryd's container that its migration and its test have too. */ -}}
{{- define "memoryd.container" -}}
image: {{ include "memoryd.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env: {{- include "memoryd.environment" . | trim | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  capabilities: {drop: [ALL]}
{{- end }}

{{- /* Settings by name: the chart's, and over them those of the values. */ -}}
{{- define "memoryd.environment" -}}
{{- $loopback := eq (include "memoryd.mode" .) "sidecar" -}}
{{- $settings := dict
      "listen" (ternary "127.0.0.1:50051" "0.0.0.0:50051" $loopback)
      "metrics_listen" "0.0.0.0:9464"
      "drain_seconds" .Values.drainSeconds
      "cache_mib" 96 "index_mib" 64 "vector_mib" 64 -}}
{{- $postgresql := .Values.store.postgresql | default dict -}}
{{- $urlSecret := $postgresql.urlSecret | default dict -}}
{{- $passwordSecret := $postgresql.passwordSecret | default dict -}}
{{- if eq .Values.store.kind "sqlite" }}{{ $_ := set $settings "store" "sqlite:/var/lib/memoryd/memoryd.db" }}
{{- else if $postgresql.url }}{{ $_ := set $settings "store" $postgresql.url }}{{ end -}}
{{- if not (or $loopback .Values.tls.secret) }}{{ $_ := set $settings "allow_plaintext" true }}{{ end -}}
{{- if .Values.tls.secret }}
{{- $_ := set $settings "tls_cert" "/run/secrets/memoryd-tls/tls.crt" }}
{{- $_ := set $settings "tls_key" "/run/secrets/memoryd-tls/tls.key" }}
{{- if .Values.tls.clientCertificates }}{{ $_ := set $settings "tls_client_ca" "/run/secrets/memoryd-tls/ca.crt" }}{{ end }}
{{- end -}}
{{- if (.Values.http | default dict).enabled }}
{{- $_ := set $settings "http_listen" (ternary "127.0.0.1:50080" "0.0.0.0:50080" $loopback) }}
{{- end -}}
{{- if .Values.credentialsSecret }}{{ $_ := set $settings "credentials" "/run/secrets/memoryd-credentials/credentials.yaml" }}{{ end -}}
{{- range $name, $value := .Values.settings }}{{ $_ := set $settings $name $value }}{{ end -}}
{{- range $name, $value := $settings }}
- {name: MEMORYD_{{ upper $name }}, value: {{ kindIs "float64" $value | ternary (printf "%.0f" (float64 $value)) $value | toString | quote }}}
{{- end }}
{{- if .Values.settingsSecret }}
- {name: MEMORYD_CONFIG, value: /run/secrets/memoryd-settings/memoryd.yaml}
{{- end }}
{{- if eq .Values.store.kind "postgresql" }}
{{- if and $urlSecret.name (not (hasKey $settings "store")) }}
- name: MEMORYD_STORE
  valueFrom: {secretKeyRef: {name: {{ $urlSecret.name }}, key: {{ $urlSecret.key | default "uri" }}}}
{{- end }}
{{- if $passwordSecret.name }}
# Read by PostgreSQL's own library.
- name: PGPASSWORD
  valueFrom: {secretKeyRef: {name: {{ $passwordSecret.name }}, key: {{ $passwordSecret.key | default "password" }}}}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* All but SQLite's volume, which a server alone may mount. */ -}}
{{- define "memoryd.mounts" -}}
{{- if .Values.settingsSecret }}
- {name: settings, mountPath: /run/secrets/memoryd-settings, readOnly: true}
{{- end }}
{{- if .Values.tls.secret }}
- {name: tls, mountPath: /run/secrets/memoryd-tls, readOnly: true}
{{- end }}
{{- if .Values.credentialsSecret }}
- {name: credentials, mountPath: /run/secrets/memoryd-credentials, readOnly: true}
{{- end }}
{{- range .Values.secretFolders }}
- {name: {{ printf "secret-%s" . }}, mountPath: /run/secrets/memoryd/{{ . }}, readOnly: true}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Secrets are readable by the group alone: memoryd refuses keys that others may read. */ -}}
{{- define "memoryd.volumes" -}}
{{- if .Values.settingsSecret }}
- name: settings
  secret: {secretName: {{ .Values.settingsSecret }}, defaultMode: 0440}
{{- end }}
{{- if .Values.tls.secret }}
- name: tls
  secret: {secretName: {{ .Values.tls.secret }}, defaultMode: 0440}
{{- end }}
{{- if .Values.credentialsSecret }}
- name: credentials
  secret: {secretName: {{ .Values.credentialsSecret }}, defaultMode: 0440}
{{- end }}
{{- range .Values.secretFolders }}
- name: {{ printf "secret-%s" . }}
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* memoryd serving, as a sidecar or as the pod's only container. */ -}}
{{- define "memoryd.server" -}}
name: memoryd
{{ include "memoryd.container" . }}
ports:
  {{- if eq (include "memoryd.mode" .) "server" }}
  - {name: grpc, containerPort: 50051}
  {{- if (.Values.http | default dict).enabled }}
  - {name: http, containerPort: 50080}
  {{- end }}
  {{- end }}
  - {name: metrics, containerPort: 9464}
# Nothing is sent here, and no agent started, before this one succeeds.
startupProbe:
  httpGet: {port: metrics, path: /readyz}
  periodSeconds: 1
  failureThreshold: 60
readinessProbe:
  httpGet: {port: metrics, path: /readyz}
  periodSeconds: 2
  timeoutSeconds: 2
# Not /readyz: that one fails while the store is away, and a restart would not bring the store back.
livenessProbe:
  httpGet: {port: metrics, path: /healthz}
  periodSeconds: 10
  timeoutSeconds: 5
resources: {{- toYaml .Values.resources | nindent 2 }}
{{- $sqlite := eq .Values.store.kind "sqlite" }}
{{- $mounts := include "memoryd.mounts" . | trim }}
{{- if or $sqlite $mounts }}
volumeMounts:
  {{- if $sqlite }}
  - {name: memory, mountPath: /var/lib/memoryd}
  {{- end }}
  {{- with $mounts }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}
