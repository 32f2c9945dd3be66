package execute

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestANextFireTimeThatCannotBeIsComputedAgain(t *testing.T) {
	var s Schedules
	r := row{ID: 1, State: Executing, Kind: Simple, Every: num(1000), Repeat: num(5), Start: noon.UnixMilli(), End: num(at(100).UnixMilli())}
	for next, kept := range map[time.Time]bool{
		noon: true, at(100): true, at(7).Add(3 * time.Millisecond): true, // off the grid: the person who wrote it decides
		noon.Add(-time.Millisecond): false, at(100).Add(time.Millisecond): false,
	} {
		r.Next = num(next.UnixMilli())
		require.Equal(t, kept, !r.execute(&s).Next.IsZero(), next)
	}
	r.Next, r.Fired = num(noon.UnixMilli()), num(5)
	require.Zero(t, r.execute(&s).Next, "all its fires are behind")
	r.Fired = num(-1)
	require.Zero(t, r.execute(&s).Fired, "negative counts as 0")
	r.Repeat = sql.NullInt64{}
	require.Equal(t, Forever, r.spec().Repeat)
}

func num(n int64) sql.NullInt64 { return sql.NullInt64{Int64: n, Valid: true} }
