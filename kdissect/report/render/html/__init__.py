"""The report as one HTML file that fetches nothing: data, scripts and style in one page."""
