package schema

import (
	"database/sql"
	"slices"
	"strings"
)

// Values is a derived table of rows, given one after another, with the named columns:
//
//	(SELECT ? AS A, ? AS B UNION ALL SELECT ?, ? …)
//
// Joined on a primary key it always plans as key lookups, where CASE … WHERE ID IN (…) drifts to a scan. The server takes
// as long to parse the rows as to look them up: a column that says the same in all of them, or the same as another one, is
// put beside them once. It returns the arguments that go with the text. The first column is the key, and no value may be
// of a type that cannot be compared.
func Values(rows []any, columns ...string) (table string, args []any) {
	n := len(columns)
	var outer, inner []string
	var own []int // the columns that rows differ in
	for c, name := range columns {
		same := slices.IndexFunc(own, func(o int) bool {
			return every(rows, n, func(row []any) bool { return row[o] == row[c] })
		})
		switch {
		case c > 0 && every(rows, n, func(row []any) bool { return row[c] == rows[c] }):
			outer, args = append(outer, "? AS "+name), append(args, rows[c])
		case same >= 0:
			outer = append(outer, "X."+columns[own[same]]+" AS "+name)
		default:
			outer, inner, own = append(outer, "X."+name), append(inner, "? AS "+name), append(own, c)
		}
	}
	for row := range slices.Chunk(rows, n) {
		for _, c := range own {
			args = append(args, row[c])
		}
	}
	others := strings.Repeat(" UNION ALL SELECT ?"+strings.Repeat(", ?", len(own)-1), len(rows)/n-1)
	return "(SELECT " + strings.Join(outer, ", ") + " FROM (SELECT " + strings.Join(inner, ", ") + others + ") X)", args
}

// every tells whether a test holds for all rows, of n columns each.
func every(rows []any, n int, test func(row []any) bool) bool {
	for row := range slices.Chunk(rows, n) {
		if !test(row) {
			return false
		}
	}
	return true
}

// OrNull is text for a column, NULL if it is empty.
func OrNull(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }
