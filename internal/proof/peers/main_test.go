package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain makes this program a node when a test starts it as one.
func TestMain(m *testing.M) {
	if os.Getenv(specEnv) != "" {
		if err := node(context.Background(), os.Stdin, os.Stdout); err != nil {
			printf(os.Stderr, "%v\n", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestPartsOfTheBenchAloneAreNoWorkHere(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, run(t.Context(), []string{"--only", "floor,rest", "--quick", "--markdown", page, "--svg", "x"}, io.Discard, io.Discard))
	assert.NoFileExists(t, page)
	require.Error(t, run(t.Context(), []string{"nonsense"}, io.Discard, io.Discard))
}

func TestAPeerThatIsAbsentIsLeftOut(t *testing.T) {
	r := &runner{progress: io.Discard}
	require.NoError(t, r.missing(nameRiver, absent("PostgreSQL", "postgresql")))
	assert.Equal(t, []string{"River: not here: PostgreSQL is missing (Debian: apt-get install postgresql, or PEERS=install)"}, r.report.Absent)
	assert.True(t, r.gone[nameRiver])
	require.Error(t, r.missing(nameQuartz, errors.New("its node does not compile")))
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	bins := [][]string{postgresBins, redisBins}
	t.Cleanup(func() { postgresBins, redisBins = bins[0], bins[1] })
	postgresBins, redisBins = nil, nil
	_, err := startPostgres(t.Context())
	require.ErrorIs(t, err, errAbsent)
	require.ErrorContains(t, err, "apt-get install postgresql")
	_, err = startRedis(t.Context(), "always")
	require.ErrorContains(t, err, "apt-get install redis-server")
	_, err = openQuartz(t.Context(), nil)
	require.ErrorContains(t, err, "apt-get install default-jdk-headless libquartz2-java")
}

// small is enough to see that each step is done, in a run that needs the runtimes of the peers.
var small = extent{
	stairs: map[string]stairs{
		nameQrtz: {loads: []int{20, 40}, steady: time.Second, window: time.Second}, nameQuartz: {loads: []int{20, 40}, steady: time.Second, window: time.Second},
	},
	pace: pace{time.Second, []int{20, 100}, []time.Duration{time.Second, time.Second}}, backlogRuns: 300, backlogFor: 20 * time.Second,
	enqueueFor: 100 * time.Millisecond,
}

func ready(t *testing.T) *runner {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts servers")
	}
	r := &runner{extent: small, progress: io.Discard}
	t.Cleanup(func() { r.close(context.Background()) })
	return r
}

// testFires has two processes of a peer carry recurring fires.
func testFires(t *testing.T, name string, f fireSetting) {
	r := ready(t)
	p, err := r.fire(t.Context(), name)
	require.NoError(t, err)
	if p == nil {
		t.Skip(r.report.Absent[0])
	}
	all, about, err := climb(t.Context(), p, f, 2, r.stairs[name])
	require.NoError(t, err)
	assert.NotEmpty(t, about)
	for i, one := range all {
		assert.Positive(t, one.Count)
		assert.LessOrEqual(t, one.Count, []int{20, 40}[i]+10, "fires of a second")
		assert.Positive(t, one.Statements)
		assert.Positive(t, one.Commits)
		assert.Zero(t, one.Early)
	}
}

func TestFiresOfQrtz(t *testing.T) { testFires(t, nameQrtz, defaultFires) }

func TestFiresOfQuartz(t *testing.T) { testFires(t, nameQuartz, quartzBatch) }

// testQueue measures all of a peer with enqueued runs, a little.
func testQueue(t *testing.T, peer string, s queueSetting) {
	r := ready(t)
	for _, one := range queuePeers {
		if one.name != peer {
			require.NoError(t, r.missing(one.name, errAbsent))
		}
	}
	measured := false
	require.NoError(t, r.eachQueue(t.Context(), func(name, library string, p queuePeer) error {
		measured = true
		assert.NotEmpty(t, p.about())
		for _, from := range []string{here, there} {
			all, twice, err := queued(t.Context(), name, library, p, s, from, 2, r.pace)
			require.NoError(t, err)
			assert.Zero(t, twice)
			require.Len(t, all, 2)
			for _, q := range all {
				assert.Positive(t, q.Count)
				assert.LessOrEqual(t, q.Count, q.Rate+q.Rate/2)
				assert.Positive(t, q.P50)
			}
		}
		b, twice, err := backlog(t.Context(), name, library, p, s, 2, r.backlogRuns, r.backlogFor)
		require.NoError(t, err)
		assert.Zero(t, twice)
		assert.EqualValues(t, r.backlogRuns, b.Runs)
		assert.Positive(t, b.PerSecond)
		for _, atOnce := range []int{1, 100} {
			e, err := enqueueing(t.Context(), name, library, p, 2, atOnce, r.enqueueFor)
			if atOnce > 1 && library == libAsynq {
				require.ErrorIs(t, err, errNotInBulk)
				continue
			}
			require.NoError(t, err)
			assert.Positive(t, e.PerSecond)
		}
		return nil
	}))
	if !measured {
		t.Skip(r.report.Absent)
	}
}

func TestQueueOfQrtz(t *testing.T)  { testQueue(t, nameQrtz, qrtzDefault) }
func TestQueueOfRiver(t *testing.T) { testQueue(t, nameRiver, riverTuned) }
func TestQueueOfAsynq(t *testing.T) { testQueue(t, nameAsynqAlways, asynqTuned) }
