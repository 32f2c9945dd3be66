package node

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const inNamespace = "QRTZ_TEST_IN_NAMESPACE"

func TestWhoAmI(t *testing.T) {
	me := whoAmI()
	require.True(t, me.known)
	assert.Equal(t, me, whoAmI())
	assert.Equal(t, int64(os.Getpid()), me.pid)
	assert.Len(t, me.bootID, 36)
	assert.Positive(t, me.namespace)
	assert.Positive(t, me.start)
}

func TestOnlyAProvenDeathCounts(t *testing.T) {
	me := whoAmI()
	for name, c := range map[string]struct {
		change func(*identity)
		want   bool
	}{
		"itself":                            {func(*identity) {}, false},
		"its parent":                        {func(o *identity) { o.pid = int64(os.Getppid()); o.start, _ = processStart(o.pid) }, false},
		"gone":                              {func(o *identity) { o.pid = int64(deadProcess(t)) }, true},
		"its process id came round again":   {func(o *identity) { o.start-- }, true},
		"gone, in another boot":             {func(o *identity) { o.pid, o.bootID = int64(deadProcess(t)), "another" }, false},
		"gone, in another namespace":        {func(o *identity) { o.pid, o.namespace = int64(deadProcess(t)), 1 }, false},
		"gone, and does not say from where": {func(o *identity) { *o = identity{pid: int64(deadProcess(t))} }, false},
		"no process":                        {func(o *identity) { o.pid = -1 }, false},
		"no process at all":                 {func(o *identity) { o.pid = 1 << 40 }, false},
	} {
		other := me
		c.change(&other)
		assert.Equal(t, c.want, me.gone(other), name)
	}
	assert.False(t, identity{}.gone(identity{pid: int64(deadProcess(t))}), "one that does not know itself proves nothing")
}

// Two processes with one host name and one address, each the first of its own namespace of process ids, as two containers on the
// host's network are: they get two ids, and keep them.
func TestTwoContainersWithOneAddressGetTwoIDs(t *testing.T) {
	if dsn := os.Getenv(inNamespace); dsn != "" {
		runInNamespace(t, dsn)
		return
	}
	unshare := []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}
	if os.Getuid() != 0 {
		unshare = append(unshare, "--map-root-user")
	}
	if out, err := exec.CommandContext(t.Context(), unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("namespaces of process ids cannot be made here: %v: %s", err, out)
	}
	dsn := newDSN(t)
	db := open(t, dsn)
	containers := map[string]map[string]string{}
	type said struct {
		out []byte
		err error
	}
	answers := make(chan said, 2)
	for range 2 {
		c := exec.CommandContext(t.Context(), unshare[0], append(unshare[1:], os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.count", "1")...)
		c.Env = append(os.Environ(), inNamespace+"="+dsn)
		c.Stderr = os.Stderr
		go func() {
			out, err := c.Output()
			answers <- said{out, err}
		}()
	}
	for range 2 {
		a := <-answers
		require.NoError(t, a.err, string(a.out))
		var one map[string]string
		require.NoError(t, json.NewDecoder(bytes.NewReader(a.out)).Decode(&one), string(a.out))
		containers[one["id"]] = one
	}
	require.Len(t, containers, 2, "two ids")
	for id, one := range containers {
		assert.Equal(t, "1", one["pid"])
		assert.Equal(t, "0", one["fenced"], "%s was fenced", id)
	}
	var left int
	require.NoError(t, db.GetContext(t.Context(), &left, `SELECT COUNT(*) FROM QRTZ_NODE`))
	assert.Equal(t, 2, left)
}

// runInNamespace is one of the containers: it lives for some timeouts, and says who it was.
func runInNamespace(t *testing.T, dsn string) {
	t.Helper()
	m, f := member(t, open(t, dsn), "", "c")
	require.NoError(t, m.Join(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 4*timeout)
	defer cancel()
	m.Run(ctx)
	line, err := json.Marshal(map[string]string{
		"id": m.Self().NodeID, "pid": strconv.Itoa(os.Getpid()), "fenced": strconv.Itoa(len(f.all())),
	})
	require.NoError(t, err)
	_, err = os.Stdout.Write(line)
	require.NoError(t, err)
}
