module github.com/qrtz-go/qrtz

go 1.25
