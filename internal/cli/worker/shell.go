package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/qrtz-go/qrtz"
)

const (
	shellExample = `{"command": "backup.sh /srv", "dir": "/opt", "env": {"LEVEL": "2"}}`

	maxTail   = 4 << 10         // bytes of output that an error quotes
	pipesOpen = 2 * time.Second // how long a child left behind may keep the output open
)

// shell runs a command with /bin/sh -c. The command and what it has started are killed when ctx ends.
func shell(ctx context.Context, run *qrtz.Run, data json.RawMessage) error {
	var want struct {
		Command string            `json:"command"`
		Dir     string            `json:"dir"`
		Env     map[string]string `json:"env"`
	}
	if err := decode(data, &want, "shell", shellExample); err != nil {
		return err
	}
	if strings.TrimSpace(want.Command) == "" {
		return fmt.Errorf("JOB_DATA of class shell: command is empty; want for example %s", shellExample)
	}
	output := &tail{max: maxTail}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", want.Command)
	cmd.Dir = want.Dir
	cmd.Env = append(os.Environ(), environ(run)...)
	for name, value := range want.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = pipesOpen
	ownGroup(cmd)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("class shell: %w%s%s", err, causeOf(ctx), output)
	}
	return nil
}

// environ tells a command which run it is.
func environ(run *qrtz.Run) []string {
	return []string{
		"QRTZ_RUN_ID=" + strconv.FormatInt(run.ID, 10),
		"QRTZ_FIRE_TIME=" + run.FireTime.UTC().Format(time.RFC3339Nano),
		"QRTZ_ATTEMPT=" + strconv.Itoa(run.Attempt),
		"QRTZ_FENCE=" + strconv.FormatInt(run.Fence, 10),
	}
}

// tail keeps the last max bytes written to it.
type tail struct {
	max  int
	kept []byte
	cut  bool
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - t.max; over > 0 {
		t.kept, t.cut = append(t.kept[:0], t.kept[over:]...), true
	}
	return len(p), nil
}

// String is the output as an error quotes it.
func (t *tail) String() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.kept), "\uFFFD"))
	switch {
	case text == "":
		return "; it wrote nothing"
	case t.cut:
		return "; the end of its output: …" + text
	}
	return "; its output: " + text
}
