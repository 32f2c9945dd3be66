package qrtz_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

func TestConfigNamesWhatIsWrong(t *testing.T) {
	for want, cfg := range map[string]qrtz.Config{
		`Config.App is empty`:                                       {},
		`MisfireAfter (3s) must exceed PollInterval (5s)`:           {App: "a", MisfireAfter: 3 * time.Second},
		`NodeTimeout (6s) must be at least twice PollInterval (5s)`: {App: "a", NodeTimeout: 6 * time.Second},
		`table prefix "QRTZ;"`:                                      {App: "a", Prefix: "QRTZ;"},
		`Workers (-1) must be at least 1`:                           {App: "a", Workers: -1},
	} {
		_, err := qrtz.Open(nil, cfg)
		require.ErrorContains(t, err, want)
	}
}
