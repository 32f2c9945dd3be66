package qrtztest

import (
	"database/sql"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

// failing is a test that may fail.
type failing struct {
	testing.TB
	why string
}

func (f *failing) Helper() {}

func (f *failing) Fatal(args ...any) {
	f.why = fmt.Sprint(args...)
	runtime.Goexit()
}

func (f *failing) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

// reason is what a test dies of that does something with a kit.
func reason(t *testing.T, do func(*Kit)) string {
	t.Helper()
	tb := &failing{TB: t}
	k := New(tb, testdb.New(t), qrtz.Config{App: "test"}, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(k)
	}()
	<-done
	k.clock.set(Start)
	return tb.why
}

func TestATimeTheServerDoesNotTakeEndsTheTest(t *testing.T) {
	far := time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, do := range []func(*Kit){
		func(k *Kit) { k.AdvanceTo(far) },
		func(k *Kit) { k.Skip(far.Sub(Start) / 1000 * 1000) },
	} {
		why := reason(t, do)
		require.NotEmpty(t, why)
		t.Log(why)
	}
}

func TestAKitNeedsADatabaseThatNoOtherHas(t *testing.T) {
	db := testdb.New(t)
	New(t, db, qrtz.Config{App: "test"}, nil)
	for want, db := range map[string]*sql.DB{`app "test" has a kit on this database already`: db, "New was given no database": nil} {
		tb, done := &failing{TB: t}, make(chan struct{})
		go func() {
			defer close(done)
			New(tb, db, qrtz.Config{App: "test"}, nil)
		}()
		<-done
		require.Contains(t, tb.why, want)
	}
	New(t, db, qrtz.Config{App: "another"}, nil)
}

func TestMisuseEndsTheTest(t *testing.T) {
	require.Contains(t, reason(t, func(k *Kit) { k.AdvanceTo(Start.Add(-1)) }), "time cannot go back")
	require.Contains(t, reason(t, func(k *Kit) { k.RequireRan("tick", 1) }), `0 runs of class "tick" have ended, want 1`)
	require.Contains(t, reason(t, func(k *Kit) { k.Declare(qrtz.Job{}) }), "a job needs a name")
	require.Empty(t, reason(t, func(k *Kit) { k.Advance(time.Hour); k.RequireRan("tick", 0) }))
}
