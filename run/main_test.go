package run

import (
	"os"
	"testing"
	"time"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }

// noon is a time with a round number of milliseconds.
var noon = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)

func at(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
