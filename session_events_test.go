package qrtz

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func TestEventsBeyondTheQueueAreDroppedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		q := newEvents(zerolog.New(zerolog.SyncWriter(&logged)))
		go q.run()
		release := make(chan struct{})
		var told int
		hook := func(Event) { <-release; told++ }
		q.tell(hook, Event{})
		synctest.Wait() // the hook has it
		for range maxEvents + 100 {
			q.tell(hook, Event{})
		}
		require.Equal(t, 1, strings.Count(logged.String(), "being dropped"))
		<-time.After(reportDropped)
		q.tell(hook, Event{})
		require.Contains(t, logged.String(), `"dropped":101,"message":"the hooks are too slow: events are being dropped"`)
		close(release)
		q.stop()
		require.Equal(t, 1+maxEvents, told, "what was queued is delivered when stopping")
		require.Contains(t, logged.String(), `"dropped":101,"message":"events were dropped in all`)
	})
}

func TestStoppingDoesNotWaitForAHookForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newEvents(zerolog.Nop())
		go q.run()
		release, told := make(chan struct{}), 0
		for range 3 {
			q.tell(func(Event) { <-release; told++ }, Event{})
		}
		began := time.Now()
		q.stop()
		require.Equal(t, lastEvents, time.Since(began))
		close(release)
		<-q.done
		require.Equal(t, 1, told, "what stood behind it is given up")
	})
}
