{{- define "iotrace.name" -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "iotrace.selector" -}}
app.kubernetes.io/name: iotrace
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "iotrace.labels" -}}
{{ include "iotrace.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "iotrace.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* A value in TOML. Helm reads every number of a file as a floating-point one; iotrace has only whole ones. */}}
{{- define "iotrace.toml" -}}
{{- if kindIs "map" . -}}
{{- $pairs := list -}}
{{- range $key, $value := . -}}
{{- $pairs = append $pairs (printf "%s = %s" (toJson $key) (toJson $value)) -}}
{{- end -}}
{ {{ join ", " $pairs }} }
{{- else if kindIs "float64" . -}}
{{ int64 . }}
{{- else -}}
{{ toJson . }}
{{- end -}}
{{- end -}}

{{/* The configuration. The pod's own address: open to what may reach pods. */}}
{{- define "iotrace.config" -}}
{{- $own := dict "listen" (printf "0.0.0.0:%d" (int .Values.port)) -}}
{{- if .Values.tlsSecret -}}
{{- $_ := set $own "tls_certificate" "/etc/iotrace/tls/tls.crt" -}}
{{- $_ := set $own "tls_key" "/etc/iotrace/tls/tls.key" -}}
{{- end -}}
{{- $config := deepCopy .Values.config -}}
{{- if .Values.tracefs -}}
{{- $_ := set $config "trace" (mergeOverwrite (dict "hook" "tracepoint") ($config.trace | default dict)) -}}
{{- end -}}
{{- $_ := set $config "http" (mergeOverwrite ($config.http | default dict) $own) -}}
{{- /* The pod's filesystem is read only, and users of the node do not see it. */}}
{{- $_ := set $config "recordings" (dict "socket" "none") -}}
{{- range $section, $values := $config }}
[{{ $section }}]
{{- range $key, $value := $values }}
{{ $key }} = {{ include "iotrace.toml" $value }}
{{- end }}
{{ end }}
{{- with .Values.configExtra }}
{{ . }}
{{- end }}
{{- end -}}

{{/* How the Prometheus operator scrapes: of a PodMonitor and a ServiceMonitor alike. */}}
{{- define "iotrace.endpoint" -}}
- port: metrics
  interval: {{ .monitor.interval }}
  scrapeTimeout: {{ .monitor.scrapeTimeout }}
  {{- if .root.Values.tlsSecret }}
  scheme: https
  tlsConfig:
    ca:
      secret:
        name: {{ .root.Values.tlsSecret }}
        key: ca.crt
    serverName: {{ include "iotrace.name" .root }}
  {{- end }}
  relabelings:
    - sourceLabels: [__meta_kubernetes_pod_node_name]
      targetLabel: instance
    # The name that rules and dashboard ask for.
    - targetLabel: job
      replacement: iotrace
{{- end -}}
