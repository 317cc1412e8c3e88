package deploy

import (
	"regexp"
	"strings"
	"testing"
)

const containerDirectory = "../container/"

// instructions gives the lines of a container file, continuations joined, and of them those of the last stage.
func instructions(t *testing.T) (every, last []string) {
	t.Helper()
	text := regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(file(t, containerDirectory+"Containerfile"), "")
	text = regexp.MustCompile(`\\\n\s*`).ReplaceAllString(text, "")
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if strings.HasPrefix(line, "FROM ") {
			last = nil
		}
		every, last = append(every, line), append(last, line)
	}
	return every, last
}

func TestImageRunsAsTheUserThatTheChartNames(t *testing.T) {
	_, last := instructions(t)
	has := func(wanted string) {
		t.Helper()
		for _, line := range last {
			if line == wanted {
				return
			}
		}
		t.Errorf("no %q in the last stage", wanted)
	}
	has("USER 10001:10001")
	has("STOPSIGNAL SIGTERM")
	// In this form a signal reaches the program instead of a shell.
	has(`ENTRYPOINT ["tally"]`)
	has(`RUN ["tally", "--version"]`)
	for _, one := range workloads(render(t)) {
		security := one.pod.Spec.SecurityContext
		if *security.RunAsUser != 10001 || *security.RunAsGroup != 10001 || *security.FSGroup != 10001 {
			t.Errorf("%s runs as %d:%d", one.name, *security.RunAsUser, *security.RunAsGroup)
		}
	}
}

func TestImageIsBuiltFromWhatTheRepositoryPins(t *testing.T) {
	every, last := instructions(t)
	toolchain := regexp.MustCompile(`channel = "([0-9.]+)"`).FindStringSubmatch(file(t, "../../rust-toolchain.toml"))
	if toolchain == nil || !strings.HasPrefix(every[0], "ARG RUST="+toolchain[1]) {
		t.Errorf("%q, but the repository pins %v", every[0], toolchain)
	}
	for _, line := range every {
		if strings.HasPrefix(line, "FROM ") && (strings.Contains(line, ":latest") || !strings.Contains(line, ":")) {
			t.Errorf("%q is not pinned", line)
		}
		if strings.HasPrefix(line, "ADD ") {
			t.Errorf("%q fetches what nobody checked", line)
		}
	}
	if !strings.HasPrefix(last[0], "FROM debian:") {
		t.Errorf("%q", last[0])
	}
	if build := strings.Join(every, "\n"); !strings.Contains(build, "--locked") {
		t.Error("the build may choose other dependencies")
	}
}

// The context of the build is named file by file, so that no key and no ledger in a clone gets into an image.
func TestSecretsStayOutOfTheImage(t *testing.T) {
	lines := strings.Fields(regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(file(t, containerDirectory+"Containerfile.dockerignore"), ""))
	if len(lines) == 0 || lines[0] != "*" {
		t.Errorf("what is not named is taken along: %v", lines)
	}
	for _, wanted := range []string{"**/*.pem", "**/*.key", "**/passphrase"} {
		if !strings.Contains(strings.Join(lines, "\n"), wanted) {
			t.Errorf("%s is taken along", wanted)
		}
	}
}
