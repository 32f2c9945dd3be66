package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/examples/internal/program"
	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

func TestMain(m *testing.M) { program.Main(m, main) }

// A person is called when the last attempt has failed, not before, and when there is no handler.
func TestAPersonIsCalledWhenNothingElseHelps(t *testing.T) {
	p := program.Start(t, testdb.DSN(t))
	p.Await("cure the cause, then try it again: qrtz run retry")
	before, _, _ := strings.Cut(p.Log(), "cure the cause")
	require.Contains(t, before, "of import has failed, and is tried again at")
	p.Await("start a program that handles mail, or delete the job")
	p.Stop()
}

// The run of a process that was killed is told by the one that takes its place.
func TestALostRunIsTold(t *testing.T) {
	dsn := testdb.DSN(t)
	killed := program.Start(t, dsn)
	killed.Await("of report has started")
	killed.Kill()
	again := program.Start(t, dsn)
	again.Await("find out how far it came, then try it again: qrtz run retry")
	again.Await(`class=report why="its node died`)
	again.Stop()
}
