package user

import (
	"testing"
	"time"

	"github.com/qrtz-go/qrtz/internal/proof/mutants/testdata/fixture"
)

func TestUse(t *testing.T) {
	done := make(chan bool)
	go fixture.Untested(done)
	select {
	case <-done:
	case <-time.After(500 * time.Millisecond):
		t.Error("not done")
	}
}
