package qrtz_test

import (
	"os"
	"testing"

	"github.com/qrtz-go/qrtz/internal/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }
