{{/* The pod of a stage; `part` names it. */}}
{{- define "tallystick.pod" -}}
{{- $root := .root -}}
{{- $stage := include "tallystick.stage" . | fromYaml -}}
{{- $gateway := eq .part "gateway" -}}
metadata:
  labels:
    {{- include "tallystick.labels" . | nindent 4 }}
  annotations:
    {{- /* Another configuration is another pod; a ConfigMap from elsewhere is only known by its name. */}}
    checksum/configuration: {{ toJson $root.Values.network.files | sha256sum }}
    {{- with $stage.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "tallystick.name" (dict "root" $root "part" "stages") }}
  automountServiceAccountToken: false
  # Variables of neighbouring services may begin with TALLY_ and would be read as settings.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $stage.terminationGracePeriodSeconds }}
  securityContext:
    {{- include "tallystick.podSecurity" . | nindent 4 }}
  {{- with $root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with $stage.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $stage.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $stage.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: {{ $stage.spread.hostname }}
      labelSelector:
        matchLabels:
          {{- include "tallystick.selector" . | nindent 10 }}
    - maxSkew: 1
      topologyKey: topology.kubernetes.io/zone
      whenUnsatisfiable: {{ $stage.spread.zone }}
      labelSelector:
        matchLabels:
          {{- include "tallystick.selector" . | nindent 10 }}
  containers:
    - name: {{ .part }}
      image: {{ include "tallystick.image" (dict "root" $root "tag" $stage.tag) | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      command: [tally, stage, {{ .part }}]
      args:
        - --network
        - /network
        - --metrics
        - 0.0.0.0:{{ $root.Values.metrics.port }}
        {{- if $gateway }}
        - --listen
        - 127.0.0.1:{{ $stage.port }}
        - --set
        - http.access=/network/access/access.toml
        - --set
        - http.references=/network/references/references.secret
        {{- end }}
        {{- if has .part (list "approver" "updater") }}
        {{- range $root.Values.participants }}
        - --participant
        - {{ . }}
        {{- end }}
        {{- end }}
        {{- include "tallystick.settings" (merge (dict) $stage.settings $root.Values.settings) | nindent 8 }}
        {{- range $stage.extraArgs }}
        - {{ . | quote }}
        {{- end }}
      env:
        - name: TALLY_LOG
          value: {{ $root.Values.log | quote }}
        {{- if $stage.keys }}
        - name: TALLY_PASSPHRASE
          valueFrom:
            secretKeyRef:
              name: {{ $root.Values.network.passphrase.secret }}
              key: {{ $root.Values.network.passphrase.key }}
        {{- end }}
      ports:
        - name: metrics
          containerPort: {{ $root.Values.metrics.port }}
      startupProbe:
        httpGet: { path: /health, port: metrics }
        periodSeconds: 2
        failureThreshold: {{ div (add $stage.startupSeconds 1) 2 }}
      livenessProbe:
        httpGet: { path: /health, port: metrics }
        periodSeconds: 5
        timeoutSeconds: 3
        failureThreshold: {{ div (add $stage.livenessSeconds 4) 5 }}
      readinessProbe:
        httpGet: { path: /ready, port: metrics }
        periodSeconds: 2
        timeoutSeconds: 2
        failureThreshold: 2
      {{- if $gateway }}
      lifecycle:
        # Until every proxy has heard that this pod goes, requests still come.
        preStop:
          exec: { command: [sleep, "5"] }
      {{- end }}
      resources:
        {{- toYaml $stage.resources | nindent 8 }}
      securityContext:
        {{- include "tallystick.containerSecurity" . | nindent 8 }}
      volumeMounts:
        - { name: network, mountPath: /network }
        - { name: configuration, mountPath: /network/network.toml, subPath: network.toml, readOnly: true }
        - { name: configuration, mountPath: /network/genesis.toml, subPath: genesis.toml, readOnly: true }
        - { name: configuration, mountPath: /network/cluster.toml, subPath: cluster.toml, readOnly: true }
        - { name: tls, mountPath: /network/tls, readOnly: true }
        {{- if $stage.keys }}
        - { name: keys, mountPath: /network/keys/institutions, readOnly: true }
        {{- end }}
        {{- if $gateway }}
        - { name: access, mountPath: /network/access, readOnly: true }
        - { name: references, mountPath: /network/references, readOnly: true }
        {{- end }}
        - { name: temporary, mountPath: /tmp }
    {{- if $gateway }}
    {{- with $stage.sidecars }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- end }}
  volumes:
    {{- if ne .part "updater" }}
    - name: network
      emptyDir: { sizeLimit: 64Mi }
    {{- end }}
    - name: configuration
      configMap:
        name: {{ include "tallystick.configMap" (dict "root" $root "part" "network") }}
    - name: tls
      secret: { secretName: {{ $stage.tls }}, defaultMode: 0440 }
    {{- if $stage.keys }}
    - name: keys
      secret: { secretName: {{ $stage.keys }}, defaultMode: 0440 }
    {{- end }}
    {{- if $gateway }}
    # Mounted as a whole, so that users who are let in or no more arrive by themselves.
    - name: access
      secret: { secretName: {{ $stage.access }}, defaultMode: 0440 }
    - name: references
      secret: { secretName: {{ $stage.references }}, defaultMode: 0440 }
    {{- end }}
    - name: temporary
      emptyDir: { sizeLimit: 64Mi }
{{- end }}
