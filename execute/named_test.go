package execute

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSuggestions(t *testing.T) {
	names := []string{"send-invoices", "send-invoice", "report", "Report2", "x"}
	for name, want := range map[string]string{
		"send-invoics": `; did you mean "send-invoices" or "send-invoice"?`,
		"repotr":       `; did you mean "report" or "Report2"?`,
		"report2":      `; did you mean "report" or "Report2"?`,
		"something":    ``,
	} {
		require.Equal(t, want, suggest(name, names), name)
	}
	require.Empty(t, suggest("a", []string{"b", "c", "d", "e", "f", "g"}), "too many are none")
	for _, d := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "", 3}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"ab", "ba", 2}} {
		require.Equal(t, d.want, distance(d.a, d.b), d)
	}
}
