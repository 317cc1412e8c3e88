{{/* The pod of a node: its directory is /network. */}}
{{- define "tallystick-node.pod" -}}
metadata:
  labels:
    {{- include "tallystick-node.labels" . | nindent 4 }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "tallystick-node.name" . }}
  automountServiceAccountToken: false
  # Variables of neighbouring services may begin with TALLY_ and would be read as settings.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: { type: RuntimeDefault }
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .Values.node.standby }}
  # The standby is of no use on the machine that is lost.
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "tallystick-node.selector" . | nindent 10 }}
  {{- end }}
  initContainers:
    # A node takes no keys that a group can read, which those of a mounted secret are.
    - name: identity
      image: {{ include "tallystick-node.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command: [sh, -c, "install -m 0600 /secret/* /identity"]
      resources:
        requests: { cpu: 10m, memory: 16Mi }
        limits: { memory: 64Mi }
      securityContext:
        {{- include "tallystick-node.containerSecurity" . | nindent 8 }}
      volumeMounts:
        - { name: secret-identity, mountPath: /secret, readOnly: true }
        - { name: identity, mountPath: /identity }
  containers:
    - name: node
      image: {{ include "tallystick-node.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command: [tally, node, run]
      args:
        - /network
        {{- if .Values.node.standby }}
        - --standby
        {{- end }}
        - --set
        - messaging.listen=0.0.0.0:{{ .Values.ports.messaging }}
        - --set
        - rpc.listen=0.0.0.0:{{ .Values.ports.rpc }}
        - --set
        - http.listen=0.0.0.0:{{ .Values.ports.http }}
        - --set
        - identity.directory=identity
        - --set
        - identity.passphrase_file=identity/passphrase
        - --set
        - rpc.users_file=users/users.toml
        {{- range $name, $value := .Values.node.settings }}
        - --set
        - {{ printf "%s=%s" $name $value | quote }}
        {{- end }}
      env:
        - name: TALLY_LOG
          value: {{ .Values.log | quote }}
      ports:
        - { name: messaging, containerPort: {{ .Values.ports.messaging }} }
        - { name: rpc, containerPort: {{ .Values.ports.rpc }} }
        - { name: http, containerPort: {{ .Values.ports.http }} }
      {{- if not .Values.node.standby }}
      startupProbe:
        httpGet: { path: /health, port: http }
        periodSeconds: 2
        failureThreshold: {{ div (add .Values.startupSeconds 1) 2 }}
      livenessProbe:
        httpGet: { path: /health, port: http }
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      {{- end }}
      # A standby answers nothing until it takes over: only the node that runs is ready.
      readinessProbe:
        httpGet: { path: /ready, port: http }
        periodSeconds: 2
        timeoutSeconds: 2
        failureThreshold: 2
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        {{- include "tallystick-node.containerSecurity" . | nindent 8 }}
      volumeMounts:
        - { name: home, mountPath: /network }
        - { name: identity, mountPath: /network/identity }
        - { name: node, mountPath: /network/node.toml, subPath: node.toml, readOnly: true }
        # Mounted as a whole, so that users who are let in or no more arrive by themselves.
        - { name: users, mountPath: /network/users, readOnly: true }
        - { name: temporary, mountPath: /tmp }
  volumes:
    {{- if eq .Values.node.database "postgres" }}
    # The copy of the network map, and where the process is.
    - name: home
      emptyDir: { sizeLimit: 256Mi }
    {{- end }}
    - name: secret-identity
      secret: { secretName: {{ .Values.node.identity }}, defaultMode: 0440 }
    - name: identity
      emptyDir: { medium: Memory, sizeLimit: 1Mi }
    - name: node
      secret:
        secretName: {{ .Values.node.secret }}
        defaultMode: 0440
        items: [{ key: node.toml, path: node.toml }]
    - name: users
      secret:
        secretName: {{ .Values.node.secret }}
        defaultMode: 0440
        items: [{ key: users.toml, path: users.toml }]
    - name: temporary
      emptyDir: { sizeLimit: 64Mi }
{{- end }}
