{{/* The stages, in the order in which a payment meets them. */}}
{{- define "tallystick.stages" -}}
gateway scheduler approver assembler sequencer updater
{{- end }}

{{/* The name of a part of this release. */}}
{{- define "tallystick.name" -}}
{{- printf "%s-%s" (.root.Release.Name | trunc 50 | trimSuffix "-") .part -}}
{{- end }}

{{/* What a selector chooses by; it never changes. */}}
{{- define "tallystick.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "tallystick.labels" -}}
{{ include "tallystick.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: {{ .root.Values.network.name }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "tallystick.image" -}}
{{- $image := .root.Values.image -}}
{{- if and $image.digest (not .tag) -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ .tag | default $image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* The ConfigMap with the network's public configuration: the one given, or the one made of the given files. */}}
{{- define "tallystick.configMap" -}}
{{- if .root.Values.network.files -}}
{{ include "tallystick.name" . }}
{{- else -}}
{{ .root.Values.network.configMap }}
{{- end -}}
{{- end }}

{{/* What a stage has: its own settings before the defaults. */}}
{{- define "tallystick.stage" -}}
{{- mergeOverwrite (deepCopy .root.Values.defaults) (deepCopy (index .root.Values.stages .part)) | toYaml -}}
{{- end }}

{{/* Arguments that set settings in place of cluster.toml's: the given ones, and where the identity lies. They are flags,
because what the environment sets would have to be a setting of network.toml as well. */}}
{{- define "tallystick.settings" -}}
- --set
- kafka.tls.authority=/network/tls/ca.crt
- --set
- kafka.tls.certificate=/network/tls/tls.crt
- --set
- kafka.tls.key=/network/tls/tls.key
{{- range $name, $value := . }}
- --set
- {{ printf "%s=%s" $name $value | quote }}
{{- end }}
{{- end }}

{{- define "tallystick.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "tallystick.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}
