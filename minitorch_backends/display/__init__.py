"""How results are shown: HTML for notebooks and pages (`html`), and pictures (`figures`), which import matplotlib."""
