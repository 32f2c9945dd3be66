package schema

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestValuesSendsOnceWhatIsTheSame(t *testing.T) {
	for name, c := range map[string]struct {
		rows    []any
		columns []string
		table   string
		args    []any
	}{
		"all differ": {
			[]any{1, "a", 2, "b"},
			[]string{"ID", "A"},
			"(SELECT X.ID, X.A FROM (SELECT ? AS ID, ? AS A UNION ALL SELECT ?, ?) X)",
			[]any{1, "a", 2, "b"},
		},
		"the same in all rows": {
			[]any{1, "a", nil, 2, "a", nil, 3, "a", nil},
			[]string{"ID", "A", "B"},
			"(SELECT X.ID, ? AS A, ? AS B FROM (SELECT ? AS ID UNION ALL SELECT ? UNION ALL SELECT ?) X)",
			[]any{"a", nil, 1, 2, 3},
		},
		"the same as another column": {
			[]any{1, 5, 5, 2, 6, 6},
			[]string{"ID", "A", "B"},
			"(SELECT X.ID, X.A, X.A AS B FROM (SELECT ? AS ID, ? AS A UNION ALL SELECT ?, ?) X)",
			[]any{1, 5, 2, 6},
		},
		"one row": {
			[]any{1, 5},
			[]string{"ID", "A"},
			"(SELECT X.ID, ? AS A FROM (SELECT ? AS ID) X)",
			[]any{5, 1},
		},
		"the key stays, whatever it is": {
			[]any{1, 5, 1, 6},
			[]string{"ID", "A"},
			"(SELECT X.ID, X.A FROM (SELECT ? AS ID, ? AS A UNION ALL SELECT ?, ?) X)",
			[]any{1, 5, 1, 6},
		},
	} {
		table, args := Values(c.rows, c.columns...)
		assert.Equal(t, c.table, table, name)
		assert.Equal(t, c.args, args, name)
	}
}
