package cron

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDescribe(t *testing.T) {
	for expr, want := range map[string]string{
		"0 0 2 ? * MON-FRI":       "at 02:00:00 on Monday to Friday",
		"0 0 2 * * ?":             "at 02:00:00",
		"0 0 12 * 1 ?":            "at 12:00:00 every day in January",
		"0 0 */6 * * ?":           "at 00:00:00, 06:00:00, 12:00:00 and 18:00:00",
		"0 0/5 * * * ?":           "every 5 minutes",
		"0 0/10 1-3 * * ?":        "every 10 minutes of hours 1 to 3",
		"10/25 0 * * * ?":         "at seconds 10 and 35 of minute 0 of every hour",
		"0 0 * * * ?":             "every hour",
		"0 0 */2 * * ?":           "every 2 hours",
		"0 30 * * * ?":            "at minute 30 of every hour",
		"0 0 8-17 ? * MON-FRI":    "at minute 0 of hours 8 to 17 on Monday to Friday",
		"* * * * * ?":             "every second",
		"* 0 * * * ?":             "every second of minute 0 of every hour",
		"* * 5 * * ?":             "every second of hour 5",
		"*/15 30 * * * ?":         "every 15 seconds of minute 30 of every hour",
		"5,7 * * * * ?":           "at seconds 5 and 7 of every minute",
		"0,58,59 * * * * ?":       "at seconds 0, 58 and 59 of every minute",
		"0 0 12 * * ? 2025,2026":  "at 12:00:00 every day in 2025 and 2026",
		"*/10 * 5-6 * JAN ?":      "every 10 seconds of hours 5 and 6 every day in January",
		"0 0 12 1,15,20-25 * ?":   "at 12:00:00 on days 1, 15 and 20 to 25 of the month",
		"0 0 12 9 NOV-FEB ?":      "at 12:00:00 on day 9 of the month in November to February",
		"0 0 12 L * ?":            "at 12:00:00 on the last day of the month",
		"0 0 12 L-3 * ?":          "at 12:00:00 on the 3rd day before the last day of the month",
		"0 0 12 LW * ?":           "at 12:00:00 on the last workday (Monday to Friday) of the month",
		"0 0 12 L-2W * ?":         "at 12:00:00 on the workday (Monday to Friday) nearest to the 2nd day before the last day of the month",
		"0 0 12 21W * ?":          "at 12:00:00 on the workday (Monday to Friday) nearest to the 21st of the month",
		"0 0 12 11W * ?":          "at 12:00:00 on the workday (Monday to Friday) nearest to the 11th of the month",
		"0 0 12 ? * FRIL":         "at 12:00:00 on the last Friday of the month",
		"0 0 12 ? * 1#2":          "at 12:00:00 on the 2nd Sunday of the month",
		"0 0 12 ? * L":            "at 12:00:00 on Saturday",
		"0 0 12 ? * SAT,SUN":      "at 12:00:00 on Saturday and Sunday",
		"0 0 12 ? * FRI-MON":      "at 12:00:00 on Friday to Monday",
		"0 0 12 ? * 2,4,6":        "at 12:00:00 on Monday, Wednesday and Friday",
		"0 0 12 ? * *":            "at 12:00:00",
		"0 0 12 ? * * *":          "at 12:00:00",
		"0 0 12 * * ? 2025/3":     "at 12:00:00 every day in 2025, 2028, 2031, 2034, 2037, 2040, 2043, 2046, 2049, 2052, 2055, 2058, 2061, 2064, 2067, 2070, 2073, 2076, 2079, 2082, 2085, 2088, 2091, 2094, 2097, 2100, 2103, 2106, 2109, 2112, 2115, 2118, 2121 and 2124",
		"0 0 12 * * ? 2025-2030":  "at 12:00:00 every day in 2025 to 2030",
		"0 0 12 * * ? 2025/1":     "at 12:00:00 every day in 2025 to 2126",
		"0 0 12 30 2 ?":           "at 12:00:00 on day 30 of the month in February (never fires)",
		"0 0 12 * * ? 9999":       "at 12:00:00 every day in 9999 (never fires)",
		"0 0 12 ? 2,4-6,9 2#5":    "at 12:00:00 on the 5th Monday of the month in February, April to June and September",
		"0 59,0 23,0 L-30 */11 ?": "at 00:00:00, 00:59:00, 23:00:00 and 23:59:00 on the 30th day before the last day of the month in December and January",
	} {
		s, err := Parse(expr, nil)
		require.NoError(t, err)
		require.Equal(t, want, s.Describe(), expr)
	}
}

func ExampleSchedule_Describe() {
	s, _ := Parse("0 0 2 ? * MON-FRI", nil)
	fmt.Println(s.Describe())
	// Output: at 02:00:00 on Monday to Friday
}
