{{- /* Fails with every value that is missing or can't be meant, each with its remedy. Types and unknown names are
       found by values.schema.json. */ -}}
{{- define "memoryd.check" -}}
{{- $wrong := list -}}
{{- $mode := include "memoryd.mode" . -}}
{{- $agent := .Values.agent | default dict -}}
{{- $store := .Values.store | default dict -}}
{{- $postgresql := $store.postgresql | default dict -}}
{{- $tls := .Values.tls | default dict -}}
{{- $settings := .Values.settings | default dict -}}
{{- $image := .Values.image | default dict -}}
{{- if not $image.repository -}}
{{- $wrong = append $wrong "image.repository is missing: set the name of memoryd's image, without its tag" -}}
{{- end -}}
{{- if kindIs "invalid" .Values.replicas -}}
{{- $wrong = append $wrong "replicas is missing: set the number of pods" -}}
{{- end -}}
{{- if kindIs "invalid" .Values.resources -}}
{{- $wrong = append $wrong "resources is missing: set requests and limits of memoryd's container, or {}" -}}
{{- end -}}
{{- if and (eq $mode "sidecar") (not $agent.image) -}}
{{- $wrong = append $wrong "agent.image is missing: mode sidecar runs memoryd beside your agent, so set the agent's image; or leave mode away for a server of its own" -}}
{{- else if and (eq $mode "server") (not .Values.mode) $agent -}}
{{- $wrong = append $wrong "agent.image is missing: agent has other fields, so set the agent's image; or leave agent away for a server of its own" -}}
{{- end -}}
{{- if eq $mode "sidecar" -}}
{{- if $tls.secret -}}
{{- $wrong = append $wrong "tls.secret is set, but the API of mode sidecar is on the pod's loopback and has no TLS: leave tls.secret away, or set mode to server" -}}
{{- end -}}
{{- else if and (not $tls.secret) (hasKey $settings "allow_plaintext") (not $settings.allow_plaintext) -}}
{{- $wrong = append $wrong "tls.secret is missing: settings.allow_plaintext is false, so name a Secret of type kubernetes.io/tls" -}}
{{- end -}}
{{- $known := or .Values.credentialsSecret $tls.clientCertificates .Values.settingsSecret $settings.jwks_file -}}
{{- if and (.Values.http | default dict).enabled (eq $mode "server") (not $known) -}}
{{- $wrong = append $wrong "credentialsSecret is missing: without credentials, http.enabled answers only to localhost; name a Secret whose key credentials.yaml says who may do what" -}}
{{- end -}}
{{- if and $tls.clientCertificates (not $tls.secret) -}}
{{- $wrong = append $wrong "tls.secret is missing: tls.clientCertificates needs a Secret of type kubernetes.io/tls that has ca.crt too" -}}
{{- end -}}
{{- if not $store.kind -}}
{{- $wrong = append $wrong "store.kind is missing: set sqlite or postgresql" -}}
{{- else if eq $store.kind "sqlite" -}}
{{- if gt (int .Values.replicas) 1 -}}
{{- $wrong = append $wrong (printf "replicas is %d, but a SQLite file has one server: set replicas to 1, or store.kind to postgresql" (int .Values.replicas)) -}}
{{- end -}}
{{- if (.Values.migration | default dict).enabled -}}
{{- $wrong = append $wrong "migration.enabled is only of PostgreSQL: with SQLite the server migrates its file at its start" -}}
{{- end -}}
{{- else -}}
{{- if not (or .Values.settingsSecret $settings.store $postgresql.url (get ($postgresql.urlSecret | default dict) "name")) -}}
{{- $wrong = append $wrong "the URL of PostgreSQL is missing: set store.postgresql.urlSecret.name, or store.postgresql.url with passwordSecret.name, or settingsSecret whose file has `store`" -}}
{{- end -}}
{{- if and $postgresql.url (get ($postgresql.urlSecret | default dict) "name") -}}
{{- $wrong = append $wrong "store.postgresql.url and store.postgresql.urlSecret.name are both set: leave one of them away" -}}
{{- end -}}
{{- if or (regexMatch "^[^/]*//[^/@]*:[^/@]*@" ($postgresql.url | default "")) (regexMatch "[?&]password=" ($postgresql.url | default "")) -}}
{{- $wrong = append $wrong "store.postgresql.url has a password, which everybody who may read the Deployment would see: put it into a Secret and set store.postgresql.passwordSecret.name" -}}
{{- end -}}
{{- end -}}
{{- $elsewhere := dict
      "models" "is set in the file of settingsSecret"
      "tenants" "is set in the file of settingsSecret"
      "health_listen" "is not needed: probes use the metrics port"
      "http_listen" "is set by the value http.enabled"
      "metrics_listen" "is set by the chart, which probes the pod by it"
      "drain_seconds" "is set by the value drainSeconds"
      "tls_cert" "is set by the value tls.secret"
      "tls_key" "is set by the value tls.secret"
      "tls_client_ca" "is set by the value tls.clientCertificates"
      "credentials" "is set by the value credentialsSecret" -}}
{{- range $name, $_ := $settings -}}
{{- if hasKey $elsewhere $name -}}
{{- $wrong = append $wrong (printf "settings.%s can't be set here: it %s" $name (get $elsewhere $name)) -}}
{{- end -}}
{{- end -}}
{{- if $wrong -}}
{{- fail (printf "these values can't be used:\n- %s" (join "\n- " $wrong)) -}}
{{- end -}}
{{- end }}
